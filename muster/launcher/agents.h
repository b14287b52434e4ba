#pragma once

#include <memory>

#include "muster/cluster/starter.h"
#include "muster/launcher/fan_out.h"
#include "muster/net/event_loop.h"

namespace muster::launcher {

// The starter of the job. `endpoints`: of the coordinator, for agents that ask for their description.
std::unique_ptr<cluster::Starter> make_starter(const FanOut& spec, const std::vector<std::string>& endpoints,
                                               net::EventLoop& loop, cluster::Starter::Handlers handlers);

// What the agent of the host at that position is told, encoded.
std::string description_for(const FanOut& spec, const std::vector<std::string>& endpoints, int position);

}  // namespace muster::launcher
