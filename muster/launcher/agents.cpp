#include "muster/launcher/agents.h"

#include "muster/agent/supervisor.h"

namespace muster::launcher {

std::unique_ptr<cluster::Starter> make_starter(const FanOut& spec, const std::vector<std::string>& endpoints,
                                               net::EventLoop& loop, const cluster::Starter::Handlers& handlers) {
  cluster::StartOptions options = spec.start;
  options.fetch = {.endpoints = endpoints, .nonce = spec.secret.nonce, .munge = !spec.secret.sealed.empty()};
  return spec.adapter->make_starter(loop, options, spec.job.environment, handlers);
}

std::string description_for(const FanOut& spec, const std::vector<std::string>& endpoints, int position) {
  const cluster::Host& host = spec.hosts[static_cast<size_t>(position)];
  cluster::Description description = spec.description;
  description.token = spec.secret.token.hex();
  description.endpoints = endpoints;
  description.host = host.name;
  description.position = position;
  description.workers = host.workers;
  if (position != spec.start.here) spec.adapter->move_to_node(description.environment, position);
  return cluster::encode(description);
}

std::optional<cluster::Progress> progress_of(std::string_view line) {
  using Stage = cluster::Progress::Stage;
  for (const auto& [prefix, stage] :
       {std::pair(agent::kCannotReach, Stage::kUnreachable), std::pair(agent::kSettingUp, Stage::kSettingUp)})
    if (line.starts_with(prefix)) return cluster::Progress{stage, std::string(line.substr(prefix.size()))};
  return std::nullopt;
}

}  // namespace muster::launcher
