#include "muster/cluster/adapter.h"

#include "muster/cluster/pbs/detect.h"
#include "muster/cluster/pbs/time_left.h"
#include "muster/cluster/preset/detect.h"
#include "muster/cluster/slurm/detect.h"

namespace muster::cluster {

Result<std::optional<Surroundings>> detect(const GetEnv& getenv, const ReadFile& read_file) {
  MUSTER_TRY(std::optional<Surroundings> slurm, slurm::detect(getenv));
  if (slurm) return slurm;
  MUSTER_TRY(std::optional<Surroundings> pbs, pbs::detect(getenv, read_file));
  if (pbs) return pbs;
  return preset::detect(getenv);
}

Result<std::optional<Duration>> time_left(const Surroundings& here, Deadline deadline) {
  if (here.adapter == "slurm") return slurm::time_left(here, deadline);
  if (here.adapter == "pbs") return pbs::time_left(here, deadline);
  return std::optional<Duration>();
}

}  // namespace muster::cluster
