#pragma once

#include <string>

#include "muster/agent/crew.h"
#include "muster/job/spec.h"
#include "muster/output/console.h"
#include "muster/output/log_layout.h"
#include "muster/report/events.h"
#include "muster/report/report.h"

namespace muster::rendezvous {
struct EndJob;
}

namespace muster::agent {

// All that is left to be said, written and removed when the job is over: one call, which returns the exit code. The
// report is the last thing on stderr.
class Conclusion {
 public:
  struct Count {
    int round;
    int restarts;
  };
  // `events` and `layout` are null when the job ended before there were any.
  Conclusion(const job::JobSpec& job, output::Console& console, report::Events* events, const output::LogLayout* layout,
             Count count);

  // Nothing was started, or not everything could be. Writes the report, too.
  int not_started(const Error& error);
  // The job is over. `crew`: of this node's last round, null if it had none. The report is the engine's: `end.text` is
  // what this node is to say.
  int ended(const Crew* crew, const rendezvous::EndJob& end);
  // The job was ended by a signal to this process, on this machine alone.
  int signalled(int signal, int launcher_pid);
  // This node has left the job.
  int failed(const Crew* crew, const Error& error);

 private:
  void record(const Crew* crew, const std::string& failure);

  const job::JobSpec& job_;
  output::Console& console_;
  report::Events* events_;
  const output::LogLayout* layout_;
  Count count_;
  bool torchrun_;
};

}  // namespace muster::agent
