#include "muster/launcher/agents.h"

#include "muster/cluster/local/starter.h"
#include "muster/cluster/slurm/starter.h"

namespace muster::launcher {

std::unique_ptr<cluster::Starter> make_starter(const FanOut& spec, const std::vector<std::string>& endpoints,
                                               net::EventLoop& loop, cluster::Starter::Handlers handlers) {
  const Environment& environment = spec.job.environment;
  const cluster::Fetch fetch{.endpoints = endpoints, .nonce = spec.secret.nonce, .munge = !spec.secret.sealed.empty()};
  cluster::ssh::Options ssh = spec.ssh;
  ssh.program = spec.program;
  ssh.push = spec.push;
  switch (spec.way) {
    case Way::kLocal:
      return cluster::local::make_starter(loop, spec.program, environment, std::move(handlers));
    case Way::kPbs: {
      cluster::pbs::Options pbs = spec.pbs;
      pbs.program = spec.program;
      pbs.fetch = fetch;
      pbs.ssh = std::move(ssh);
      return cluster::pbs::make_starter(loop, pbs, environment, std::move(handlers));
    }
    case Way::kSlurm: {
      cluster::slurm::Options slurm;
      slurm.program = spec.program;
      slurm.push = spec.push;
      slurm.fetch = fetch;
      return cluster::slurm::make_starter(loop, std::move(slurm), environment, std::move(handlers));
    }
    case Way::kSsh:
      break;
  }
  return cluster::ssh::make_starter(loop, std::move(ssh), environment, std::move(handlers));
}

std::string description_for(const FanOut& spec, const std::vector<std::string>& endpoints, int position) {
  const cluster::Host& host = spec.hosts[static_cast<size_t>(position)];
  cluster::Description description = spec.description;
  description.token = spec.secret.token.hex();
  description.endpoints = endpoints;
  description.host = host.name;
  description.position = position;
  description.workers = host.workers;
  if (spec.way == Way::kPbs && position != spec.pbs.here) cluster::pbs::move_to_node(description.environment, position);
  return cluster::encode(description);
}

}  // namespace muster::launcher
