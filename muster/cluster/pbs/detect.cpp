#include "muster/cluster/pbs/detect.h"

namespace muster::cluster::pbs {

Result<std::optional<Surroundings>> detect(const GetEnv& /*getenv*/, const ReadFile& /*read_file*/) {
  return std::optional<Surroundings>();
}

Result<std::optional<Duration>> time_left(const Surroundings& /*here*/, Deadline /*deadline*/) {
  return std::optional<Duration>();
}

}  // namespace muster::cluster::pbs
