#pragma once

#include <string>
#include <string_view>

#include "muster/job/spec.h"
#include "muster/job/worker_env.h"

namespace muster::output {

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
std::string worker_label(const job::JobSpec& job, const job::Placement& placement, const std::string& hostname);

}  // namespace muster::output
