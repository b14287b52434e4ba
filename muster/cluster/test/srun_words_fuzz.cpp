#include <cstdint>
#include <cstdlib>

#include "muster/base/strings.h"
#include "muster/cluster/slurm/step.h"
#include "muster/cluster/slurm/words.h"

// Whatever srun, its tasks and scontrol say.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::cluster;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  for (std::string_view line : muster::split(text, '\n')) {
    slurm::parse_task_line(line);
    auto end = slurm::parse_task_end(line);
    if (end && (end->nodes.empty() || (!end->tasks.empty() && end->tasks.size() != end->nodes.size()))) std::abort();
    slurm::parse_greeting(line);
    slurm::why_not_executed(line);
    slurm::why_it_waits(line);
  }
  if (slurm::explain_failure(1, text).why.message.empty()) std::abort();
  const slurm::Devices devices = slurm::parse_devices(text);
  std::vector<std::string> hosts = {"n1", "n2", "n3"};
  for (const auto& [host, each] : devices.node) hosts.push_back(host);
  size_t count = 0;
  for (const slurm::Group& group : slurm::divide(hosts, devices, {{"n1", 0}, {"n3", 1}})) count += group.hosts.size();
  if (count != hosts.size()) std::abort();
  return 0;
}
