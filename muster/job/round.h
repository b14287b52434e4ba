#pragma once

#include <cstdint>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/environment.h"

namespace muster::job {

// One start of all workers, as one node of the job sees it: where its ranks lie in the world, and where all meet. The
// engine places the node (rendezvous/placement.cpp); the agent adds what only it knows.
struct Round {
  int number = 0;    // counts from 0
  int restarts = 0;  // rounds so far that began because a worker had failed
  int first_rank = 0, world_size = 1;
  int group_rank = 0, group_world_size = 1;
  int first_role_rank = 0, role_world_size = 1;
  uint16_t master_port = 0;
  // What follows is the agent's.
  std::string master_addr = {};
  std::string job = {};        // no other job, anywhere, has this id
  Duration lease = {};         // of this node in a job of several nodes; 0 in a job of one node
  Environment variables = {};  // for every worker of this node, on top of the job's
};

// Where a worker stands in its round.
struct Placement {
  int rank = 0;
  int local_rank = 0;
  int world_size = 1;
  int local_world_size = 1;
  int group_rank = 0;
  int group_world_size = 1;
  int role_rank = 0;
  int role_world_size = 1;
};

// Of one of the `local_workers` that this node has in the round. Pure.
Placement place_worker(const Round& round, int local_rank, int local_workers);

}  // namespace muster::job
