// podman asks another process, conmon, to run the container: the worker is in a session of its own, and podman waits,
// passes signals on and returns the exit code. With the node's process ids, network and shared memory workers find each
// other as they do without a container. Values go by podman's own environment, so that no argument shows them.

#include <fmt/format.h>

#include "muster/base/strings.h"
#include "muster/container/inside.h"
#include "muster/container/runtimes.h"

namespace muster::container::podman {
namespace {

Words user_options(const Plan& plan) {
  // The store lets our own user in: it must be ours whom the node sees, whatever the image would choose.
  if (plan.spec.root) return {"--user=0:0"};
  Words words;
  if (plan.node.uid != 0) words.emplace_back("--userns=keep-id");
  words.push_back(fmt::format("--user={}:{}", plan.node.uid, plan.node.gid));
  return words;
}

Words gpu_options(const Plan& plan) {
  switch (plan.node.gpus) {
    case Gpus::kNone:
      return {};
    case Gpus::kAmd:
      return {"--device=/dev/kfd", "--device=/dev/dri", "--group-add=keep-groups"};
    case Gpus::kNvidia:
      break;
  }
  if (plan.node.cdi) return {"--device=nvidia.com/gpu=all"};
  return {"--env=NVIDIA_VISIBLE_DEVICES=all"};  // for a hook of the site
}

// Without root its file systems are mounted in a user namespace that all podmans of a user share.
Words storage_command(const Plan& plan, const std::string& verb) {
  const Spec& spec = plan.spec;
  Words words = plan.node.uid == 0 ? Words{spec.program} : Words{spec.program, "unshare", spec.program};
  append(words, {verb, spec.name});
  return words;
}

Words place_words(const Plan& plan) {
  if (plan.place.form != Place::Form::kDirectory) return {plan.place.text};
  // Over it, unless it is to be written to, lies a layer that goes with the worker.
  return {"--rootfs", plan.spec.writable ? plan.place.text : plan.place.text + ":O"};
}

// What the image sets, which podman does not know of a directory. By value only what podman needs itself for its own
// sake: paths, and nothing of anybody's.
Words image_variable(const Plan& plan, const Worker& worker, const Environment::Variable& variable, CommandLine& line) {
  const auto& [name, value] = variable;
  for (const auto& other : worker.environment)
    if (other.first == name && is_workers_own(plan, worker, other)) return {};
  if (belongs_outside(name) || name == "TMPDIR") return {fmt::format("--env={}={}", name, value)};
  line.environment.set(name, value);
  return {"--env=" + name};
}

}  // namespace

Words storage_question(const Plan& plan) { return {plan.spec.program, "info", "--format", "{{.Store.GraphRoot}}"}; }

std::string read_storage(const process::CommandOutput& answer) {
  const std::string line = process::last_line(answer.output);
  return answer.status.success() && line.starts_with('/') ? line : "";
}

Existence existence(const Plan& plan) {
  return {.command = {plan.spec.program, "container", "exists", plan.spec.name}};
}

std::vector<Words> creation(const Plan& plan) {
  return {{plan.spec.program, "create", "--name", making_name(plan), plan.spec.image, "/bin/sh"}};
}

Words naming(const Plan& plan) { return {plan.spec.program, "rename", making_name(plan), plan.spec.name}; }

Words removal(const Plan& plan, const std::string& making) {
  return {plan.spec.program, "rm", "--force", "--ignore", making};
}

Location location(const Plan& plan) {
  const Spec& spec = plan.spec;
  return {.place = {Place::Form::kDirectory, {}},
          .command = storage_command(plan, "mount"),
          .variables = {spec.program, "inspect", "--type", "container", "--format",
                        "{{range .Config.Env}}{{println .}}{{end}}", spec.name}};
}

Fetching fetching(const Plan& plan) {
  const Spec& spec = plan.spec;
  if (plan.place.form == Place::Form::kDirectory) return {};
  if (plan.place.form == Place::Form::kFile) return {.command = {spec.program, "load", "--input", plan.place.text}};
  return {.known = {spec.program, "image", "exists", spec.image},
          .command = {spec.program, "pull", "--quiet", spec.image}};
}

CommandLine worker_command(const Plan& plan, const Worker& worker) {
  const Spec& spec = plan.spec;
  CommandLine line{.argv = {spec.program, "run", "--rm", "--label=muster=" + plan.label, "--network=host", "--ipc=host",
                            "--pid=host", "--security-opt=label=disable"},
                   .environment = worker.environment};
  // The worker has our pipes as they are. A terminal podman refuses to hand on: then it copies.
  line.argv.emplace_back(worker.terminal ? "--log-driver=none" : "--log-driver=passthrough");
  if (worker.reads_stdin) line.argv.emplace_back("--interactive");
  append(line.argv, user_options(plan));
  append(line.argv, gpu_options(plan));
  for (const Mount& mount : spec.mounts)
    line.argv.push_back(fmt::format("--volume={}:{}:{}", mount.source, mount.target, mount.read_only ? "ro" : "rw"));
  line.argv.push_back("--workdir=" + spec.directory);
  for (const auto& variable : plan.image_environment) append(line.argv, image_variable(plan, worker, variable, line));
  for (const auto& variable : worker.environment)
    if (goes_inside(plan, worker, variable) && is_plain_name(variable.first))
      line.argv.push_back("--env=" + variable.first);
  append(line.argv, spec.options);
  append(line.argv, place_words(plan));
  append(line.argv, worker.argv);
  return line;
}

Words list_leftovers(const Plan& plan) {
  return {plan.spec.program, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label=muster=" + plan.label};
}

Words remove_leftovers(const Plan& plan, const Words& ids) {
  Words words{plan.spec.program, "rm", "--force", "--ignore", "--time", "0"};
  append(words, ids);
  return words;
}

Words release(const Plan& plan) { return plan.spec.name.empty() ? Words{} : storage_command(plan, "unmount"); }

}  // namespace muster::container::podman
