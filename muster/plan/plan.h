#pragma once

#include <string>
#include <variant>
#include <vector>

#include "muster/base/log.h"
#include "muster/base/result.h"
#include "muster/environment/setup.h"
#include "muster/job/request.h"
#include "muster/job/spec.h"
#include "muster/launcher/fan_out.h"
#include "muster/launcher/symmetric.h"
#include "muster/plan/facts.h"

namespace muster::plan {

// Something worth saying before the job starts.
struct Note {
  LogLevel level;
  std::string text;
};

// A job ready to start, and what to say about it.
struct JobPlan {
  // How it is started: on this node alone; on others from here; or on this one of several that each run muster.
  std::variant<job::JobSpec, launcher::FanOut, launcher::Symmetric> start;
  std::string mode_why;           // "--hosts names 3"
  bool workers_given = false;     // as a number
  Environment given_environment;  // of this process, before anything was added
  job::Request for_nodes;         // of a FanOut: what its agents are told
  bool env_diff = false;          // --env-diff: nodes say what they are, and run nothing else
  std::string record;             // --record, where this process is the one that keeps it; else empty
  std::vector<Note> notes;

  job::JobSpec& job();
  const job::JobSpec& job() const { return const_cast<JobPlan*>(this)->job(); }
  const launcher::FanOut* fan_out() const { return std::get_if<launcher::FanOut>(&start); }
  const launcher::Symmetric* symmetric() const { return std::get_if<launcher::Symmetric>(&start); }
};

// What a launcher has decided for the node of an agent that it started.
struct Assignment {
  job::Token token = {};
  std::vector<std::string> endpoints = {};  // of the coordinator
  std::string run_id = {};
  std::string host = {};
  int position = 0;
  std::optional<int> workers = {};         // instead of --nproc-per-node
  std::optional<std::string> script = {};  // the text of PROGRAM, if the job brings it along
};

// How a node is set up before anything else is decided. What it leaves belongs in Facts::left_by_set_up.
struct SetUp {
  environment::Setup setup;
  std::string host;  // what this node is called
  Duration time;     // at most
  LogLevel threshold = LogLevel::kInfo;
};

// A container that must be ready before more is decided. What comes of it belongs in Facts::container.
struct MakeContainer {
  container::Request request;  // but for deadline, launcher and say
  Duration time;               // at most
  LogLevel threshold = LogLevel::kInfo;
};

// How long a job that is over waits for its record.
inline constexpr Duration kRecordPatience = std::chrono::seconds(30);

// What plan() comes to. It is finished with a JobPlan, or with an Error (the user's: kUsage, or kNotFound and
// kNotExecutable for the program). Else it says what it needs to get further: the answer to a question,
// a node that is set up, or a container that is ready. The caller sees to it, and plans again.
using Outcome = std::variant<JobPlan, Error, Question, SetUp, MakeContainer>;

// What the request comes to on this machine; `agent`: as the part of a job that a launcher has started. Pure.
Outcome plan(const job::Request& request, const Facts& facts, const Assignment* agent = nullptr);

// Facts that follow from the environment, which a set-up may have changed: they must be asked for again.
void forget_after_set_up(Facts& facts);

// How many descriptors this process needs for the plan.
struct Descriptors {
  uint64_t needed = 0;
  uint64_t wanted = 0;  // the node of rank 0 serves every worker of the job, and their number is not known yet
  std::string what;     // "8 workers"
};
Descriptors descriptors(const JobPlan& plan);
// `limit`: what this process could get.
Result<void> check_descriptors(const Descriptors& descriptors, uint64_t limit);

// Whether where we are decides at all: not for a job that was asked to be this node's alone, nor with --hosts and its
// like; torchrun's default is this node, whatever there is around it.
bool surroundings_count(const job::Request& request);

}  // namespace muster::plan
