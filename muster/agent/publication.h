#pragma once

#include <string>
#include <vector>

#include "muster/agent/console.h"
#include "muster/agent/job.h"
#include "muster/agent/report.h"

namespace muster::agent {

// What is common to every report of a job.
Report make_report(const JobSpec& job, std::string kind, int exit_code, std::vector<WorkerOutcome> outcomes,
                   Verdict verdict, bool several_nodes = false);

// As the job's flavor shows it on stderr; empty: nothing.
std::string report_text(const JobSpec& job, const Report& report, bool colour);

// --report. A file that is there tells of this job, not of an earlier one: whoever will write it removes it first.
void remove_old_report(const JobSpec& job);
// Complains on the console.
void write_report_file(const JobSpec& job, Console& console, const Report& report);

// Whether stderr is a terminal and nobody minds colours.
bool wants_colour(const JobSpec& job);

}  // namespace muster::agent
