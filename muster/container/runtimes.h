#pragma once

#include "muster/container/commands.h"

// One namespace per runtime, each in its own folder. commands.cpp chooses between them.
namespace muster::container {

namespace enroot {
Words storage_question(const Plan& plan);
std::string read_storage(const process::CommandOutput& answer);
std::vector<Words> creation(const Plan& plan);
CommandLine worker_command(const Plan& plan, const Worker& worker);
}  // namespace enroot

namespace apptainer {
std::vector<Words> creation(const Plan& plan);
CommandLine worker_command(const Plan& plan, const Worker& worker);
}  // namespace apptainer

namespace podman {
Words storage_question(const Plan& plan);
std::string read_storage(const process::CommandOutput& answer);
Existence existence(const Plan& plan);
std::vector<Words> creation(const Plan& plan);
Words naming(const Plan& plan);
Words removal(const Plan& plan, const std::string& making);
Location location(const Plan& plan);
Fetching fetching(const Plan& plan);
CommandLine worker_command(const Plan& plan, const Worker& worker);
Words list_leftovers(const Plan& plan);
Words remove_leftovers(const Plan& plan, const Words& ids);
Words release(const Plan& plan);
}  // namespace podman

namespace charliecloud {
std::vector<Words> creation(const Plan& plan);
CommandLine worker_command(const Plan& plan, const Worker& worker);
}  // namespace charliecloud

}  // namespace muster::container
