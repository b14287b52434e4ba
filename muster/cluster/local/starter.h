#pragma once

#include "muster/cluster/starter.h"

namespace muster::cluster::local {

// Agents on this machine: simulated nodes. `program` is our own binary.
std::unique_ptr<Starter> make_starter(net::EventLoop& loop, std::string program, Environment environment,
                                      Starter::Handlers handlers);

}  // namespace muster::cluster::local
