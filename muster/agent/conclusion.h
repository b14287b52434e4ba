#pragma once

#include <string>
#include <vector>

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

  int succeeded(const Crew& crew);
  int failed(const Crew& crew, std::vector<report::WorkerOutcome> outcomes, report::Verdict verdict);
  int signalled(int signal, int launcher_pid, std::vector<report::WorkerOutcome> outcomes);
  // Nothing was started, or not everything could be.
  int not_started(const Error& error);
  // One node's end of a job of several. `crew`: of its last round, null if it had none. The report is the
  // coordinator's: `end.text` is what this node is to say.
  int member_ended(const Crew* crew, const rendezvous::EndJob& end);
  int member_failed(const Crew* crew, const Error& error);

 private:
  report::Report report(job::Ending kind, int exit_code, std::vector<report::WorkerOutcome> outcomes,
                        report::Verdict verdict) const;
  void publish(const report::Report& report);
  void copy_error_file(const report::WorkerOutcome& root);
  void record_ends(const Crew& crew, const std::string& failure);
  void record_member(const Crew* crew, const std::string& failure);

  const job::JobSpec& job_;
  output::Console& console_;
  report::Events* events_;
  const output::LogLayout* layout_;
  Count count_;
  bool torchrun_;
};

}  // namespace muster::agent
