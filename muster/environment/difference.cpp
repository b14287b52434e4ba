#include "muster/environment/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/base/printable.h"
#include "muster/base/strings.h"

namespace muster::environment {
namespace {

constexpr size_t kNamedHosts = 8;
constexpr size_t kShown = 160;   // bytes of a value
constexpr size_t kContext = 24;  // of what all values have in common in front

// What a node, a process or a session of it is called: never the same twice.
bool differs_by_nature(std::string_view name) {
  constexpr std::array<std::string_view, 24> kNames = {"HOSTNAME",
                                                       "HOST",
                                                       "_",
                                                       "SHLVL",
                                                       "OLDPWD",
                                                       "SLURM_NODEID",
                                                       "SLURM_PROCID",
                                                       "SLURM_LOCALID",
                                                       "SLURM_GTIDS",
                                                       "SLURM_TASK_PID",
                                                       "SLURM_TOPOLOGY_ADDR",
                                                       "SLURM_LAUNCH_NODE_IPADDR",
                                                       "SLURM_SRUN_COMM_HOST",
                                                       "SLURM_SRUN_COMM_PORT",
                                                       "SLURM_STEP_LAUNCHER_PORT",
                                                       "SLURMD_NODENAME",
                                                       "PBS_NODENUM",
                                                       "PBS_TASKNUM",
                                                       "PBS_NODEFILE",
                                                       "XDG_SESSION_ID",
                                                       "INVOCATION_ID",
                                                       "JOURNAL_STREAM",
                                                       "SYSTEMD_EXEC_PID",
                                                       "WINDOWID"};
  return name.starts_with("SSH_") || name.starts_with("DBUS_") ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

using Values = std::map<std::string, std::string>;

Difference compare(const std::vector<Fingerprint>& nodes, Values Fingerprint::*part, const std::string& name) {
  Difference difference{.name = name, .variable = part == &Fingerprint::variables, .groups = {}};
  for (const Fingerprint& node : nodes) {
    auto found = (node.*part).find(name);
    const auto value = found == (node.*part).end() ? std::nullopt : std::optional(found->second);
    auto group = std::find_if(difference.groups.begin(), difference.groups.end(),
                              [&](const Difference::Group& other) { return other.value == value; });
    if (group == difference.groups.end())
      group = difference.groups.insert(difference.groups.end(), Difference::Group{value, {}});
    group->hosts.push_back(node.host);
  }
  std::stable_sort(difference.groups.begin(), difference.groups.end(),
                   [](const auto& a, const auto& b) { return a.hosts.size() > b.hosts.size(); });
  return difference;
}

std::string named(const std::vector<std::string>& hosts) {
  const size_t count = std::min(hosts.size(), kNamedHosts);
  std::string text = join({hosts.begin(), hosts.begin() + static_cast<ptrdiff_t>(count)}, ", ");
  if (hosts.size() > count) text += fmt::format(" and {} more", hosts.size() - count);
  return escaped(text);
}

// How much all values have in common in front.
size_t common_beginning(const Difference& difference) {
  std::optional<std::string> first;
  size_t common = 0;
  for (const Difference::Group& group : difference.groups) {
    if (!group.value) continue;
    if (!first) {
      first = group.value;
      common = first->size();
    }
    const auto end = std::mismatch(first->begin(), first->begin() + static_cast<ptrdiff_t>(common),
                                   group.value->begin(), group.value->end());
    common = static_cast<size_t>(end.first - first->begin());
  }
  return common;
}

// Whole when it is short; else what differs.
std::string shown(const std::optional<std::string>& value, size_t common) {
  if (!value) return "(not set)";
  std::string text = *value;
  if (text.size() > kShown && common > kContext && common < text.size()) text = "…" + text.substr(common - kContext);
  if (text.size() > kShown) text = text.substr(0, kShown) + "…";
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.empty() ? "(empty)" : escaped(text);
}

}  // namespace

std::vector<Difference> differences(const std::vector<Fingerprint>& nodes, const std::vector<std::string>& ignored) {
  std::vector<Difference> all;
  for (Values Fingerprint::*part : {&Fingerprint::versions, &Fingerprint::variables}) {
    std::set<std::string> names;
    for (const Fingerprint& node : nodes)
      for (const auto& [name, value] : node.*part) names.insert(name);
    for (const std::string& name : names) {
      if (part == &Fingerprint::variables &&
          (differs_by_nature(name) || std::find(ignored.begin(), ignored.end(), name) != ignored.end()))
        continue;
      if (Difference difference = compare(nodes, part, name); difference.groups.size() > 1)
        all.push_back(std::move(difference));
    }
  }
  return all;
}

std::string differences_text(const std::vector<Fingerprint>& nodes, const std::vector<Difference>& differences) {
  if (nodes.size() < 2)
    return fmt::format("There is one node, {}, and nothing to compare it with.\n",
                       nodes.empty() ? "" : escaped(nodes[0].host));
  if (differences.empty()) return fmt::format("The {} nodes do not differ.\n", nodes.size());
  std::string text;
  for (const Difference& difference : differences) {
    text += fmt::format("{}\n", escaped(difference.name));
    size_t width = 0;
    for (const auto& group : difference.groups) width = std::max(width, named(group.hosts).size());
    const size_t common = common_beginning(difference);
    for (const auto& group : difference.groups)
      text += fmt::format("  {:<{}}  {}\n", named(group.hosts), width, shown(group.value, common));
  }
  return text;
}

std::string differences_json(const std::vector<Fingerprint>& nodes, const std::vector<Difference>& differences) {
  nlohmann::ordered_json json;
  json["nodes"] = nlohmann::ordered_json::array();
  for (const Fingerprint& node : nodes)
    json["nodes"].push_back({{"host", node.host}, {"versions", node.versions}, {"variables", node.variables}});
  json["differences"] = nlohmann::ordered_json::array();
  for (const Difference& difference : differences) {
    nlohmann::ordered_json groups = nlohmann::ordered_json::array();
    for (const auto& group : difference.groups)
      groups.push_back({{"value", group.value ? nlohmann::ordered_json(*group.value) : nlohmann::ordered_json()},
                        {"hosts", group.hosts}});
    json["differences"].push_back({{"name", difference.name},
                                   {"kind", difference.variable ? "variable" : "version"},
                                   {"groups", std::move(groups)}});
  }
  // ASCII: of what is beyond it some terminals obey characters too.
  return json.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace muster::environment
