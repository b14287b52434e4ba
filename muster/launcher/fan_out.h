#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/cluster/adapter.h"
#include "muster/cluster/description.h"
#include "muster/job/spec.h"
#include "muster/rendezvous/membership.h"
#include "muster/rendezvous/shared_secret.h"

namespace muster::launcher {

// A job on several nodes that this process starts: `muster run --hosts`, `--hostfile`, `--local-nodes`, or inside an
// allocation.
struct FanOut {
  job::JobSpec job;  // for what this process itself does: console, signals, report
  std::vector<cluster::Host> hosts;
  const cluster::Adapter* adapter = nullptr;  // starts the agents; never null in a plan
  cluster::StartOptions start;                // but for fetch
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
