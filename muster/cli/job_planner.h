#pragma once

#include <string>

#include "muster/cli/job_options.h"
#include "muster/cli/values.h"

namespace muster::cli {

// plan_job() at work: each step reads the options of one theme, checks them and adds its part to the job. In three
// files by theme; this header is for them alone.
class Planner {
 public:
  Planner(Verb verb, const Parsed& parsed, const Facts& facts)
      : verb_(verb), ours_(verb == Verb::kRun), parsed_(parsed), facts_(facts) {}

  Result<JobPlan> plan();

 private:
  // job_options.cpp: what is run, how often, and what happens when it fails.
  void plan_log_level();
  Result<void> refuse_unsupported();
  Result<void> plan_events();
  Result<void> plan_nodes();
  Result<int> count(Countable what);
  Result<void> plan_workers();
  Result<void> plan_command();
  Result<void> plan_failures();
  void plan_environment();
  Result<void> check_descriptors();

  // job_rendezvous.cpp: where the workers meet.
  Result<void> plan_rendezvous();
  Result<void> plan_static(bool has_endpoint, const Endpoint& endpoint);
  Result<void> check_own(Opt id, const std::string& host) const;
  Result<void> fix_port(int port);
  std::string decimal_id() const;
  void plan_store();

  // job_streams.cpp: output, labels and stdin.
  Result<void> plan_output();
  Result<void> plan_labels();
  Result<void> plan_stdin();

  const std::string& text(Opt id) const { return parsed_.text(id); }
  bool standalone() const { return parsed_.flag(Opt::kStandalone); }
  Result<int64_t> integer(Opt id, int64_t min, int64_t max) const;
  // The error of an option's value, with the option's name, or that of the variable it came from, in front.
  Error about(Opt id, Error error) const;
  void note(LogLevel level, std::string text) { plan_.notes.push_back({level, std::move(text)}); }

  const Verb verb_;
  const bool ours_;
  const Parsed& parsed_;
  const Facts& facts_;
  JobPlan plan_;
  agent::JobSpec& job_ = plan_.job;
  bool old_torch_ = false;
};

}  // namespace muster::cli
