#include "muster/cluster/slurm/node_address.h"

#include <fmt/format.h>

#include "muster/base/environment.h"
#include "muster/base/strings.h"
#include "muster/process/command.h"

namespace muster::cluster::slurm {

std::string parse_node_address(std::string_view scontrol) {
  constexpr std::string_view kName = "NodeAddr=";
  for (std::string_view line : split(scontrol, '\n'))
    for (std::string_view word : split(line, ' '))
      if (word.starts_with(kName)) return std::string(word.substr(kName.size()));
  return {};
}

Result<std::string> node_address(const std::string& node, Deadline deadline) {
  MUSTER_TRY(auto ran, process::run_command({"scontrol", "show", "node", node}, own_environment(), deadline));
  std::string address = parse_node_address(ran.output);
  if (ran.status.success() && !address.empty()) return address;
  const std::string why = process::last_line(ran.errors);
  return Error{ErrorKind::kPeer, fmt::format("scontrol show node {}: {}", node, why.empty() ? "no NodeAddr" : why), {}};
}

}  // namespace muster::cluster::slurm
