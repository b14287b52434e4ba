#pragma once

#include "muster/container/commands.h"

// One namespace a runtime, each in a folder of its own; commands.cpp chooses.
namespace muster::container {

namespace enroot {
Existence existence(const Plan& plan);
std::vector<Words> creation(const Plan& plan, bool again);
CommandLine worker_command(const Plan& plan, const Worker& worker);
}  // namespace enroot

namespace apptainer {
std::vector<Words> creation(const Plan& plan, bool again);
CommandLine worker_command(const Plan& plan, const Worker& worker);
}  // namespace apptainer

namespace podman {
Existence existence(const Plan& plan);
std::vector<Words> creation(const Plan& plan, bool again);
Location location(const Plan& plan);
Fetching fetching(const Plan& plan);
CommandLine worker_command(const Plan& plan, const Worker& worker);
Words list_leftovers(const Plan& plan);
Words remove_leftovers(const Plan& plan, const Words& ids);
Words release(const Plan& plan);
}  // namespace podman

namespace charliecloud {
std::vector<Words> creation(const Plan& plan, bool again);
CommandLine worker_command(const Plan& plan, const Worker& worker);
}  // namespace charliecloud

}  // namespace muster::container
