#include "muster/launcher/agents.h"

#include "muster/cluster/local/starter.h"

namespace muster::launcher {

std::unique_ptr<cluster::Starter> make_starter(const FanOut& spec, const std::vector<std::string>& endpoints,
                                               net::EventLoop& loop, cluster::Starter::Handlers handlers) {
  const process::Environment& environment = spec.job.environment;
  [[maybe_unused]] const cluster::Fetch fetch{.endpoints = endpoints, .nonce = spec.nonce, .munge = spec.munge};
  switch (spec.way) {
    case Way::kLocal:
      return cluster::local::make_starter(loop, spec.program, environment, std::move(handlers));
    case Way::kSlurm:  // not yet
    case Way::kPbs:    // not yet
    case Way::kSsh:
      break;
  }
  cluster::ssh::Options options = spec.ssh;
  options.program = spec.program;
  options.push = spec.push;
  return cluster::ssh::make_starter(loop, std::move(options), environment, std::move(handlers));
}

}  // namespace muster::launcher
