#include "muster/process/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <unordered_map>

#include "muster/base/fd.h"
#include "muster/base/strings.h"

namespace muster::process {

std::optional<ProcStat> parse_proc_stat(std::string_view text) {
  size_t open = text.find(" (");
  size_t close = text.rfind(") ");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  auto pid = parse_int(text.substr(0, open));
  auto fields = split(text.substr(close + 2), ' ');  // state, parent, group, session, …
  constexpr size_t kForeground = 5, kReapedFaults = 8, kThreads = 17;
  if (!pid || fields.size() <= kThreads || fields[0].size() != 1) return std::nullopt;
  auto parent = parse_int(fields[1]);
  auto group = parse_int(fields[2]);
  auto session = parse_int(fields[3]);
  auto foreground = parse_int(fields[kForeground]);
  auto threads = parse_int(fields[kThreads]);
  auto reaped_faults = parse_int(fields[kReapedFaults]);
  if (!parent || !group || !session || !foreground || !threads || !reaped_faults) return std::nullopt;
  return ProcStat{.pid = static_cast<pid_t>(*pid),
                  .state = fields[0][0],
                  .parent = static_cast<pid_t>(*parent),
                  .group = static_cast<pid_t>(*group),
                  .session = static_cast<pid_t>(*session),
                  .foreground = static_cast<pid_t>(*foreground),
                  .threads = static_cast<int>(*threads),
                  .reaped_faults = *reaped_faults};
}

std::optional<ProcStat> read_proc_stat(pid_t pid) {
  char path[32];
  *fmt::format_to_n(path, sizeof path - 1, "/proc/{}/stat", pid).out = '\0';
  Fd fd(open(path, O_RDONLY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  char text[512];  // the fields we want end well before: a name has 15 characters, 63 for kernel threads
  ssize_t size = read(fd.get(), text, sizeof text);
  if (size <= 0) return std::nullopt;
  return parse_proc_stat({text, static_cast<size_t>(size)});
}

std::vector<ProcStat> all_processes() {
  std::vector<ProcStat> result;
  std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
  if (!folder) return result;
  while (const dirent* entry = readdir(folder.get())) {
    auto pid = parse_int(entry->d_name);
    if (!pid) continue;
    if (auto stat = read_proc_stat(static_cast<pid_t>(*pid))) result.push_back(*stat);
  }
  return result;
}

std::vector<ProcStat> tree_below(pid_t root, const std::vector<ProcStat>& all) {
  std::unordered_multimap<pid_t, const ProcStat*> children;
  for (const ProcStat& process : all) {
    if (process.pid != root) children.emplace(process.parent, &process);
  }
  std::vector<ProcStat> result;
  auto add_children_of = [&](pid_t parent) {
    auto [begin, end] = children.equal_range(parent);
    for (auto it = begin; it != end; ++it) result.push_back(*it->second);
    children.erase(begin, end);  // pids reused while /proc was read could otherwise close a circle
  };
  add_children_of(root);
  for (size_t i = 0; i < result.size(); ++i) add_children_of(result[i].pid);
  return result;
}

Environment first_environment(pid_t pid) {
  Environment environment;
  auto block = read_file(fmt::format("/proc/{}/environ", pid));
  for (std::string_view entry : split(block ? std::string_view(*block) : std::string_view(), '\0'))
    if (const size_t equals = entry.find('='); equals != std::string_view::npos)
      environment.add(entry.substr(0, equals), entry.substr(equals + 1));
  return environment;
}

bool has_entry(std::string_view environ_block, std::string_view entry) {
  for (std::string_view each : split(environ_block, '\0')) {
    if (each == entry) return true;
  }
  return false;
}

}  // namespace muster::process
