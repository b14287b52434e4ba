#include "muster/job/worker_cpus.h"

#include "muster/job/worker_env.h"
#include "muster/process/gpus.h"

namespace muster::job {

Result<std::vector<std::vector<int>>> cpus_of_workers(const JobSpec& job) {
  if (!job.binding) return std::vector<std::vector<int>>();
  process::GpuCount gpus = process::count_gpus([&](const std::string& name) -> std::optional<std::string> {
    const std::string* value = job.environment.find(name);
    return value != nullptr ? std::optional(*value) : std::nullopt;
  });
  process::BindingRequest request{
      .binding = *job.binding, .workers = job.workers, .gpu_pci_ids = {}, .topology_xml = {}};
  auto workers = static_cast<size_t>(job.workers);
  if (gpus.ids.size() >= workers) {
    gpus.ids.resize(workers);
    request.gpu_pci_ids = process::gpu_pci_ids(gpus.ids);
  }
  return process::bind_workers(request);
}

}  // namespace muster::job
