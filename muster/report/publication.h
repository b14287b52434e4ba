#pragma once

#include <string>
#include <vector>

#include "muster/job/spec.h"
#include "muster/output/console.h"
#include "muster/report/report.h"

namespace muster::report {

// What is common to every report of a job.
Report make_report(const job::JobSpec& job, job::Ending kind, int exit_code, std::vector<WorkerOutcome> outcomes,
                   Verdict verdict, bool several_nodes = false);

// As the job's flavor shows it on stderr; empty: nothing.
std::string report_text(const job::JobSpec& job, const Report& report, bool colour);

// --report. A file that is there tells of this job, not of an earlier one: its writer removes an old one first.
void remove_old_report(const job::JobSpec& job);
// Complains on the console.
void write_report_file(const job::JobSpec& job, output::Console& console, const Report& report);

// Who started this process as torch starts a worker (TORCHELASTIC_ERROR_FILE) reads its error file as it reads its
// workers': the one of the root cause is copied there. Complains on the console.
void copy_error_file(const job::JobSpec& job, output::Console& console, const WorkerOutcome& root);

// Whether stderr is a terminal and nobody minds colours.
bool wants_colour(const job::JobSpec& job);

}  // namespace muster::report
