// apptainer (and singularity, its older name) waits for the program inside, as its parent in the same process group, and
// passes signals on. The node's environment goes inside except where the image sets a variable; what begins with
// APPTAINERENV_ wins over the image.

#include <fmt/format.h>

#include <array>

#include "muster/container/inside.h"
#include "muster/container/runtimes.h"

namespace muster::container::apptainer {
namespace {

bool is_singularity(const Spec& spec) { return spec.program.ends_with("singularity"); }

// It needs these itself, and sees to what becomes of them inside.
bool is_for_the_runtime(std::string_view name) {
  constexpr std::array<std::string_view, 10> kBeginnings = {"PATH", "HOME", "USER",  "LOGNAME",   "SHELL",
                                                            "PWD",  "XDG_", "DBUS_", "APPTAINER", "SINGULARITY"};
  for (std::string_view beginning : kBeginnings)
    if (name.starts_with(beginning)) return true;
  return false;
}

}  // namespace

std::vector<Words> creation(const Plan& plan) {
  return {{plan.spec.program, "build", "--sandbox", plan.node.storage + "/" + making_name(plan), plan.spec.image}};
}

CommandLine worker_command(const Plan& plan, const Worker& worker) {
  const Spec& spec = plan.spec;
  CommandLine line{.argv = {spec.program, "exec"}, .environment = {}};
  if (plan.node.gpus == Gpus::kNvidia) line.argv.emplace_back("--nv");
  if (plan.node.gpus == Gpus::kAmd) line.argv.emplace_back("--rocm");
  if (spec.root) line.argv.emplace_back("--fakeroot");
  // An image file cannot be changed: what is written is kept in memory.
  const bool directory = plan.place.form == Place::Form::kDirectory;
  if (spec.writable) line.argv.emplace_back(directory ? "--writable" : "--writable-tmpfs");
  for (const Mount& mount : spec.mounts)
    append(line.argv, {"--bind", fmt::format("{}:{}{}", mount.source, mount.target, mount.read_only ? ":ro" : "")});
  append(line.argv, {"--pwd", spec.directory});
  append(line.argv, spec.options);
  line.argv.push_back(plan.place.text);
  append(line.argv, worker.argv);

  const std::string prefix = is_singularity(spec) ? "SINGULARITYENV_" : "APPTAINERENV_";
  for (const auto& variable : worker.environment) {
    const bool own = is_workers_own(plan, worker, variable);
    if (is_for_the_runtime(variable.first) || own || (!worker.bare && !belongs_outside(variable.first)))
      line.environment.add(variable);
    if (own) line.environment.add(prefix + variable.first, variable.second);
  }
  return line;
}

}  // namespace muster::container::apptainer
