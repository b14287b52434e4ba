#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/cluster/description.h"
#include "muster/cluster/hosts.h"
#include "muster/cluster/pbs/starter.h"
#include "muster/cluster/ssh/starter.h"
#include "muster/job/spec.h"
#include "muster/rendezvous/membership.h"
#include "muster/rendezvous/shared_secret.h"

namespace muster::launcher {

// How an agent comes to a node.
enum class Way {
  kSsh,
  kLocal,  // simulated nodes: agents on this machine, each a host of its own
  kSlurm,  // srun, within the allocation
  kPbs,    // pbs_tmrsh, or ssh with pbs_attach, within the job
};
// A scheduler starts its agents, which then ask for their description.
inline bool is_scheduler(Way way) { return way == Way::kSlurm || way == Way::kPbs; }

// A job on several nodes that this process starts: `muster run --hosts`, `--hostfile`, `--local-nodes`, or inside an
// allocation.
struct FanOut {
  job::JobSpec job;  // for what this process itself does: console, signals, report
  std::vector<cluster::Host> hosts;
  Way way = Way::kSsh;
  std::string program;  // our own binary: absolute path
  cluster::Push push = cluster::Push::kAuto;
  cluster::ssh::Options ssh;  // but for program and push
  cluster::pbs::Options pbs;  // but for program, fetch and ssh
  cluster::Description
      description;  // of every agent, but for what is its own: token, endpoints, host, position, workers
  rendezvous::SharedSecret secret;  // chosen by choose_secret() if agents ask for their description
  rendezvous::MembershipOptions membership;
  job::PortRange ports;
  std::string interface;  // --interface; empty: any
  // How long the agents may take to finish when the job is over and they have said all; they are not waited for
  // without.
  Duration agents_patience = Duration(0);
  // Where the workers' stdout goes instead of the console.
  std::function<void(const std::string& host, const std::string& bytes)> on_stdout = nullptr;
};

// What an agent asks for its description begins with its host's name. With this behind it, it says why it cannot run.
inline constexpr char kComplaint = '\n';

// Runs it to its end; returns muster's exit code. The coordinator's port is bound before any agent is started. When
// this process dies, however, the agents end their workers.
int run_fan_out(const FanOut& spec);

}  // namespace muster::launcher
