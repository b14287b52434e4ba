#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster::cli {

// What a running job says of itself, in JSON (launcher/status_server.h), and as people read it. All pure.

// The names by which a job may be asked for.
struct JobNames {
  std::string job;     // its id
  std::string run_id;  // --rdzv-id
};
// An error: it is no status of a job.
Result<JobNames> job_names(std::string_view document);

// The id, its first characters, or the run id.
bool is_named(const JobNames& names, std::string_view wanted);

// A table of the job's nodes under a line about the job. `now` in seconds since 1970.
std::string status_text(std::string_view document, double now);
// All of them as one JSON array.
std::string status_json(const std::vector<std::string>& documents);

}  // namespace muster::cli
