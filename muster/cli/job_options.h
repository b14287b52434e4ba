#pragma once

#include <string>
#include <vector>

#include "muster/agent/job.h"
#include "muster/base/log.h"
#include "muster/base/result.h"
#include "muster/cli/argument_parser.h"
#include "muster/cli/facts.h"

namespace muster::cli {

// Something worth saying before the job starts.
struct Note {
  LogLevel level;
  std::string text;
};

// A job ready to start, and what to say about it.
struct JobPlan {
  agent::JobSpec job;
  process::Environment given_environment;  // the launcher's, before anything was added
  std::vector<Note> notes;
};

// What the options of run, torchrun or launch come to on this machine. Errors are the user's: kUsage, or kNotFound and
// kNotExecutable for the program.
Result<JobPlan> plan_job(Verb verb, const Parsed& parsed, const Facts& facts);

}  // namespace muster::cli
