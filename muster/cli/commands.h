#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/cli/argument_parser.h"
#include "muster/plan/plan.h"

// One file a verb. Each takes its parsed command line and returns the exit code.
namespace muster::cli {

// run, torchrun and launch share all but their defaults; `typed` is how the user called it ("muster run", "torchrun").
int run_command(Verb verb, const std::string& typed, const std::vector<std::string>& arguments);

// The words of a command line, for --record. `typed`: "muster run".
std::vector<std::string> command_line(const std::string& typed, const std::vector<std::string>& arguments);

// Where a scheduler has started several tasks on this node one of them does the work, by `run`; the others wait for it.
int run_with_mates(Verb verb, const std::string& typed, const job::Request& request, const plan::Facts& facts,
                   const std::function<int()>& run);

// What run_command() does with its plan: shows it (--dry-run), or says its notes and runs it.
int carry_out(Verb verb, const std::string& typed, const job::Request& request, const plan::Facts& facts,
              plan::JobPlan& plan, bool json);

// The part of a job on one node, told on stdin what to do.
int agent_command(const std::vector<std::string>& words);

// `accelerate launch …`, and the same as a program named accelerate-launch.
int accelerate_command(const std::vector<std::string>& arguments);
int accelerate_launch_command(const std::vector<std::string>& arguments);

int where_command(const Parsed& parsed);
int status_command(const Parsed& parsed);
int store_command(const Parsed& parsed);
int env_command(const Parsed& parsed);
int version_command(const Parsed& parsed);

// Says on stderr what is wrong; returns the exit code for it.
int fail(const Error& error);

// Writes everything to stdout; 1 when nobody reads it.
int print(const std::string& text);

}  // namespace muster::cli
