#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "muster/cluster/starter.h"
#include "muster/launcher/fan_out.h"
#include "muster/net/event_loop.h"

namespace muster::launcher {

// The starter of the job. `endpoints`: of the coordinator, for agents that ask for their description.
std::unique_ptr<cluster::Starter> make_starter(const FanOut& spec, const std::vector<std::string>& endpoints,
                                               net::EventLoop& loop, const cluster::Starter::Handlers& handlers);

// What the agent of the host at that position is told, encoded.
std::string description_for(const FanOut& spec, const std::vector<std::string>& endpoints, int position);

// What a line on an agent's stderr says of its way into the job; nothing: it is for people. Pure.
std::optional<cluster::Progress> progress_of(std::string_view line);

}  // namespace muster::launcher
