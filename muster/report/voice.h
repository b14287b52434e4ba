#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "muster/job/spec.h"
#include "muster/output/console.h"
#include "muster/report/report.h"

namespace muster::report {

// Behind "stopping …": what the next signal does. Empty for a signal that does nothing more when it comes again.
std::string_view second_signal_hint(int signal);

// What the supervisor says while the job runs, in muster's words or in torchrun's.
class Voice {
 public:
  Voice(output::Console& console, job::Flavor flavor) : console_(console), torchrun_(flavor != job::Flavor::kMuster) {}

  // `workers`: how many still run.
  void signal_received(int signal, int workers, Duration grace);
  void killing_all(int workers);
  void closing(int pid, int signal);
  // The grace is over.
  void killing(int rank, int pid, int signal, Duration grace);
  void unkillable(int rank, int pid);
  void timer_expired(int rank, int pid, const std::string& scope, int signal);
  // A round has failed.
  void failed(const WorkerOutcome& root, const std::string& program);
  void restarting(const std::string& decision, const WorkerOutcome& root);
  // Processes of a worker that exited with 0; they are ended now.
  void ending_children(int rank, const std::vector<pid_t>& pids);
  // Processes that nothing could end.
  void left_behind(size_t count);

 private:
  output::Console& console_;
  bool torchrun_;
};

}  // namespace muster::report
