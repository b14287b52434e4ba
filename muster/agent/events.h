#pragma once

#include <string>

#include "muster/agent/console.h"
#include "muster/agent/job.h"
#include "muster/agent/worker_env.h"
#include "muster/process/exit_status.h"

namespace muster::agent {

// What happened, as JSON lines: torchrun's event objects on stderr (--event-log-handler console) and into a file
// (--events FILE).
class Events {
 public:
  static Result<Events> open(const JobSpec& job, Console& console);

  void rendezvous(Duration took);
  void ranks_assigned(Duration took);
  void worker_started(const Placement& placement, int pid, int restart_count);
  // raw_error: the error file's text, empty for none.
  void worker_ended(const Placement& placement, int pid, process::ExitStatus status, const std::string& raw_error,
                    int restart_count);
  void agent_ended(bool exception, int restart_count);

 private:
  Events() = default;
  const JobSpec* job_ = nullptr;
  Console* console_ = nullptr;
  Fd file_;
  TimePoint started_;
};

}  // namespace muster::agent
