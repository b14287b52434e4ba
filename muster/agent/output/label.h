#pragma once

#include <string>
#include <string_view>

#include "muster/agent/job.h"
#include "muster/agent/worker_env.h"

namespace muster::agent {

// The names a prefix template may use: ${role_name} ${local_rank} ${rank} ${hostname}.
struct LabelNames {
  std::string role_name;
  int local_rank = 0;
  int rank = 0;
  std::string hostname;
};

// safe_substitute() with the names above. Pure.
std::string expand_prefix(std::string_view text, const LabelNames& names);

// What stands in front of each line of a worker on the console; empty: nothing. A template wins over the label;
// torchrun's own prefix is "[<role><local rank>]:" without a blank. Pure.
std::string worker_label(const JobSpec& job, const Placement& placement, const std::string& hostname);

}  // namespace muster::agent
