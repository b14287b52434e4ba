#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster::cli {

// Reads the status of a running job, which is JSON (launcher/status_server.h), and shows it as text. All pure.

// The names of a job that `muster status JOB` accepts.
struct JobNames {
  std::string job;     // the job's id
  std::string run_id;  // --rdzv-id
};
// Error: the document is not the status of a job.
Result<JobNames> job_names(std::string_view document);

// True if `wanted` is the job's id, its first characters, or the run id.
bool is_named(const JobNames& names, std::string_view wanted);

// A line about the job, then a table of its nodes. `now`: seconds since 1970.
std::string status_text(std::string_view document, double now);
// All documents as one JSON array.
std::string status_json(const std::vector<std::string>& documents);

}  // namespace muster::cli
