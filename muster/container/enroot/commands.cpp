// enroot executes its way to the program inside: the worker keeps the process that was started, its group and its exit
// status. Inside there is only the environment that is named, a line a variable.

#include <fmt/format.h>

#include "muster/container/inside.h"
#include "muster/container/runtimes.h"

namespace muster::container::enroot {
namespace {

constexpr std::string_view kNoContainer = ".muster-asks-for-the-data-path";

// enroot reads mounts as fstab(5) does, where a blank is written so.
std::string fstab_word(const std::string& path) {
  std::string word;
  for (char c : path)
    word += c == ' ' ? std::string("\\040") : c == '\t' ? "\\011" : c == '\\' ? "\\134" : std::string(1, c);
  return word;
}

std::string mount_word(const Mount& mount) {
  return fmt::format("{}:{}:none:x-create=auto,rbind,{}", fstab_word(mount.source), fstab_word(mount.target),
                     mount.read_only ? "ro" : "rw");
}

// enroot takes a value between quotes for one that a shell would read, and removes them.
bool would_lose_quotes(std::string_view value) {
  constexpr std::string_view kQuotes = "\"'", kBlanks = " \t\v\f\r";
  const size_t last = value.find_last_not_of(kBlanks);
  return last != std::string_view::npos && last > 0 && kQuotes.find(value[0]) != std::string_view::npos &&
         kQuotes.find(value[last]) != std::string_view::npos;
}

// Such a value goes under another name and behind an x. Returns what the shell inside does to set the variable.
std::string quoted_variable(const Environment::Variable& variable, CommandLine& line) {
  constexpr std::string_view kCopy = "__muster_quoted_";
  const std::string copy = fmt::format("{}{}", kCopy, variable.first);
  append(line.argv, {"--env", copy});
  line.environment.add(copy, "x" + variable.second);
  return fmt::format("export {0}=\"${{{1}#x}}\" && unset {1} && ", variable.first, copy);
}

// Its hook for GPUs asks the environment outside before that of the image. Most images ask for all, and where there is
// none that would be an error.
void choose_gpus(Environment& environment, const Node& node) {
  if (node.gpus != Gpus::kNvidia) {
    environment.set("NVIDIA_VISIBLE_DEVICES", "void");
    return;
  }
  if (!environment.has("NVIDIA_VISIBLE_DEVICES")) environment.set("NVIDIA_VISIBLE_DEVICES", "all");
  if (!environment.has("NVIDIA_DRIVER_CAPABILITIES")) environment.set("NVIDIA_DRIVER_CAPABILITIES", "compute,utility");
}

}  // namespace

// enroot tells its data path (a setting of the environment, of the user or of the site) only in this error message:
// "[ERROR] No such file or directory: /home/ada/.local/share/enroot/.muster-asks-for-the-data-path".
Words storage_question(const Plan& plan) { return {plan.spec.program, "start", "--", std::string(kNoContainer)}; }

std::string read_storage(const process::CommandOutput& answer) {
  const std::string line = process::last_line(answer.errors);
  const std::string end = fmt::format("/{}", kNoContainer);
  const size_t path = line.find(": /");
  if (path == std::string::npos || !line.ends_with(end)) return {};
  return line.substr(path + 2, line.size() - path - 2 - end.size());
}

std::vector<Words> creation(const Plan& plan) {
  return {{plan.spec.program, "create", "--name", making_name(plan), "--", plan.spec.image}};
}

CommandLine worker_command(const Plan& plan, const Worker& worker) {
  const Spec& spec = plan.spec;
  CommandLine line{.argv = {spec.program, "start"}, .environment = worker.environment};
  if (spec.root) line.argv.emplace_back("--root");
  if (spec.writable) line.argv.emplace_back("--rw");
  for (const Mount& mount : spec.mounts) append(line.argv, {"--mount", mount_word(mount)});
  std::string script;
  for (const auto& variable : worker.environment) {
    const bool one_line = variable.second.find('\n') == std::string::npos;
    if (!goes_inside(plan, worker, variable) || !is_plain_name(variable.first) || !one_line) continue;
    if (would_lose_quotes(variable.second)) {
      script += quoted_variable(variable, line);
    } else {
      append(line.argv, {"--env", variable.first});
    }
  }
  choose_gpus(line.environment, plan.node);
  append(line.argv, spec.options);
  // The image's own start script changes to its own directory.
  append(line.argv, {"--", plan.place.text, "sh", "-c", script + "cd \"$0\" && exec \"$@\"", spec.directory});
  append(line.argv, worker.argv);
  return line;
}

}  // namespace muster::container::enroot
