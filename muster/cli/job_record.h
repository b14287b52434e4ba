#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/plan/plan.h"

// --record DIR: a process of its own asks and writes, so that neither the start nor the job waits for it.
namespace muster::cli {

inline constexpr std::string_view kRecordWord = "node-record";  // of no use to people

// Where plan.record says so, starts that process. Call what is returned, if anything is, at the end of the job: it waits
// for a record that is not done.
std::function<void()> start_record(const plan::JobPlan& plan, const std::vector<std::string>& command_line);

// That process. On its stdin, since arguments are there for everybody to read: DIR, job and host, then the command
// line.
int record_command();

}  // namespace muster::cli
