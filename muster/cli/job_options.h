#pragma once

#include <string>
#include <variant>
#include <vector>

#include "muster/base/log.h"
#include "muster/base/result.h"
#include "muster/cli/argument_parser.h"
#include "muster/cli/facts.h"
#include "muster/job/spec.h"
#include "muster/launcher/fan_out.h"
#include "muster/launcher/symmetric.h"

namespace muster::cli {

// Something worth saying before the job starts.
struct Note {
  LogLevel level;
  std::string text;
};

// How the job is started: on this node alone; on others from here; or on this one of several that each run muster.
using NodesPlan = std::variant<std::monostate, launcher::FanOut, launcher::Symmetric>;

// A job ready to start, and what to say about it.
struct JobPlan {
  job::JobSpec job;
  NodesPlan nodes;                     // its `job` is the one above
  std::string mode_why;                // "--hosts names 3"
  bool workers_given = false;          // as a number
  Environment given_environment;       // the launcher's, before anything was added
  std::vector<std::string> forwarded;  // options in front of the typed ones for agents: what only this process knows
  bool env_diff = false;               // --env-diff: nodes say what they are, and run nothing else
  std::string record;                  // --record, where this process is the one that keeps it; else empty
  std::vector<Note> notes;
};

// What a front end with a command line of its own (accelerate launch) wants besides what options can say.
struct Wishes {
  Environment environment;       // for every worker, over what it inherits
  std::optional<int> processes;  // of all nodes together; the first nodes get the remainder
  bool ranked = true;            // false: one worker without any of torchrun's variables
};

// What the options of run, torchrun or launch come to on this machine. Errors are the user's: kUsage, or kNotFound and
// kNotExecutable for the program.
Result<JobPlan> plan_job(Verb verb, const Parsed& parsed, const Facts& facts, const Wishes& wishes = {});

// What a launcher has decided for the node of an agent that it started.
struct Assignment {
  job::Token token;
  std::vector<std::string> endpoints;  // of the coordinator
  std::string host;
  int position = 0;
  std::optional<int> workers;         // instead of --nproc-per-node
  std::optional<std::string> script;  // the text of PROGRAM, if the job brings it along
};
Result<JobPlan> plan_member(Verb verb, const Parsed& parsed, const Facts& facts, const Assignment& assignment,
                            const Wishes& wishes = {});

}  // namespace muster::cli
