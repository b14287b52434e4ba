#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/agent/companion.h"
#include "muster/job/spec.h"
#include "muster/rendezvous/membership.h"

namespace muster::launcher {

// A job on several nodes, each of which runs its own muster, as torchrun is used.
struct Symmetric {
  job::JobSpec job;  // with job.membership: token, coordinators (the endpoint), node rank, sizes
  rendezvous::MembershipOptions membership;  // of the coordinator, on the node that hosts it
  std::string host;                  // of the endpoint as given: what workers get as MASTER_ADDR in a static rendezvous
  uint16_t port = 0;                 // of the endpoint
  std::vector<uint16_t> candidates;  // tried in this order: one that the user fixed, or derived ones
  // The token is not in job.membership: the node that hosts makes one, and hands it out by munge (rendezvous/munge.h) under
  // this name, which all nodes of the job know. Empty: it is.
  std::string sealed_as;
  std::string sealed_token;  // on the node that hosts, made there
  // Who hosts: torchrun's rules. kYes: this node, and an error if the port is taken; kGuess: this node if a port is
  // free, else a client where another process on this machine hosts this job; kNo: a client.
  enum class Hosts { kNo, kGuess, kYes } hosts = Hosts::kNo;
  // kYes, and the endpoint is no address of this machine: in words for people. Others may reach this one by it, or two
  // nodes take themselves for the first: where this job's coordinator answers there this one is a client, and refused.
  std::string doubt;
  std::function<void()> at_end = nullptr;  // WardenOptions::at_end
};

// Binds the endpoint if this node hosts, then runs warden and agent as run_under_warden() does, with the coordinator
// beside the agent. Returns muster's exit code. Errors, before anything is started: kUsage for a port that is taken,
// others where the token cannot be had.
Result<int> run_symmetric(Symmetric spec);

}  // namespace muster::launcher
