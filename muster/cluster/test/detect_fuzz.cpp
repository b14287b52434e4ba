#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/cluster/adapter.h"
#include "muster/cluster/slurm/node_address.h"
#include "muster/cluster/slurm/time_left.h"

// An arbitrary environment, one variable a line; the line "<" begins the nodefile.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t cut = text.find("\n<\n");
  const std::string nodefile = cut == std::string::npos ? "" : text.substr(cut + 3);
  std::map<std::string, std::string> variables;
  for (std::string_view line : split(std::string_view(text).substr(0, cut), '\n')) {
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos) variables[std::string(line.substr(0, equals))] = line.substr(equals + 1);
    (void)cluster::slurm::parse_time_left(fmt::format("12 {}", line), "12");
    (void)cluster::slurm::parse_node_address(line);
  }
  auto getenv = [&](const std::string& name) {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  auto found = cluster::detect(getenv, [&](const std::string&) -> Result<std::string> { return nodefile; });
  if (!found) {
    MUSTER_CHECK(!found.error().message.empty() && found.error().message.size() < 100'000);
    return 0;
  }
  if (!*found) return 0;
  const cluster::Surroundings& here = **found;
  MUSTER_CHECK(!here.what.empty() && !here.clues.empty());
  MUSTER_CHECK(here.local_task >= 0 && here.local_task < here.tasks_here);
  std::set<std::string> names;
  for (const cluster::Host& host : here.nodes) MUSTER_CHECK(names.insert(host.name).second);
  if (here.node_rank && !here.nodes.empty()) MUSTER_CHECK(static_cast<size_t>(*here.node_rank) < here.nodes.size());
  MUSTER_CHECK(static_cast<size_t>(here.allocated) >= here.nodes.size() || here.role == cluster::Role::kTask);
  if (here.role == cluster::Role::kHead) MUSTER_CHECK(!here.nodes.empty());
  return 0;
}
