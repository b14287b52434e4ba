// ch-run executes the program inside: the worker keeps the process that was started, its group and its exit status. The
// node's environment goes along as it is, /tmp and /dev too. What is to win over the image is set again behind the
// image's own variables, from a copy under another name: no value is an argument, and ch-run reads no quotes or dollars
// in it.

#include <fmt/format.h>

#include "muster/container/inside.h"
#include "muster/container/runtimes.h"

namespace muster::container::charliecloud {
namespace {

std::string sibling(const std::string& program, const std::string& name) {
  const size_t slash = program.rfind('/');
  return slash == std::string::npos ? name : program.substr(0, slash + 1) + name;
}

constexpr std::string_view kCopy = "__muster_own_";

void set_last(CommandLine& line, const Environment::Variable& variable) {
  line.argv.push_back(fmt::format("--set-env={0}=${1}{0}", variable.first, kCopy));
  line.environment.add(fmt::format("{}{}", kCopy, variable.first), variable.second);
}

bool is_shown_anyway(const Mount& mount) {
  return mount.source == mount.target && (mount.target == "/tmp" || mount.target.starts_with("/tmp/"));
}

}  // namespace

std::vector<Words> creation(const Plan& plan) {
  const std::string directory = plan.node.storage + "/" + making_name(plan);
  std::vector<Words> steps;
  // ch-convert makes a directory of anything but a directory.
  if (plan.place.form == Place::Form::kDirectory) {
    steps.push_back({"cp", "-a", "--reflink=auto", "--", plan.spec.image, directory});
  } else {
    steps.push_back({sibling(plan.spec.program, "ch-convert"), plan.spec.image, directory});
  }
  // The driver's libraries are not in the image, and nothing mounts them.
  if (plan.node.gpus == Gpus::kNvidia)
    steps.push_back({sibling(plan.spec.program, "ch-fromhost"), "--nvidia", directory});
  return steps;
}

CommandLine worker_command(const Plan& plan, const Worker& worker) {
  const Spec& spec = plan.spec;
  CommandLine line{.argv = {spec.program}, .environment = {}};
  if (spec.root) append(line.argv, {"--uid=0", "--gid=0"});
  if (spec.writable || plan.makes_mount_points) line.argv.emplace_back("--write");
  if (plan.has_environment_file) line.argv.emplace_back("--set-env");
  for (const auto& variable : worker.environment) {
    const auto& [name, value] = variable;
    const bool own = is_workers_own(plan, worker, variable);
    if (name == "TMPDIR") {
      // ch-run would take it for what is to be /tmp inside.
      if (value != "/tmp") set_last(line, variable);
      continue;
    }
    if (own && plan.image_variables.contains(name)) set_last(line, variable);
    if (name == "HOME" || name == "USER" || own || (!worker.bare && !belongs_outside(name)))
      line.environment.add(variable);
  }
  if (line.argv.back().starts_with("--set-env=")) line.argv.push_back(fmt::format("--unset-env={}*", kCopy));
  if (!line.environment.has("PATH")) line.environment.set("PATH", kImagePath);
  if (!line.environment.has("USER")) line.environment.set("USER", plan.node.user);  // it insists on one
  for (const Mount& mount : spec.mounts)
    if (!is_shown_anyway(mount)) line.argv.push_back(fmt::format("--bind={}:{}", mount.source, mount.target));
  line.argv.push_back("--cd=" + spec.directory);
  append(line.argv, spec.options);
  append(line.argv, {plan.place.text, "--"});
  append(line.argv, worker.argv);
  return line;
}

}  // namespace muster::container::charliecloud
