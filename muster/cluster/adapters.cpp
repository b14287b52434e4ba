#include "muster/cluster/adapters.h"

namespace muster::cluster {

const std::vector<const Adapter*>& adapters() {
  static const std::vector<const Adapter*> all = {
      &worker::adapter(),  // first: inside a worker the allocation is the other job's
      &slurm::adapter(),  &pbs::adapter(), &preset::adapter(), &ssh::adapter(), &local::adapter(),
  };
  return all;
}

Result<std::optional<Surroundings>> detect(const GetEnv& getenv, const ReadFile& read_file) {
  for (const Adapter* adapter : adapters()) {
    MUSTER_TRY(std::optional<Surroundings> here, adapter->detect(getenv, read_file));
    if (!here) continue;
    here->adapter = adapter;
    return here;
  }
  return std::optional<Surroundings>();
}

std::string scheduler_job(const GetEnv& getenv) {
  for (const Adapter* adapter : adapters())
    if (std::string number = adapter->job_number(getenv); !number.empty()) return number;
  return {};
}

}  // namespace muster::cluster
