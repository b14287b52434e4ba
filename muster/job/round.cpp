#include "muster/job/round.h"

namespace muster::job {

Placement place_worker(const Round& round, int local_rank, int local_workers) {
  return {.rank = round.first_rank + local_rank,
          .local_rank = local_rank,
          .world_size = round.world_size,
          .local_world_size = local_workers,
          .group_rank = round.group_rank,
          .group_world_size = round.group_world_size,
          .role_rank = round.first_role_rank + local_rank,
          .role_world_size = round.role_world_size};
}

}  // namespace muster::job
