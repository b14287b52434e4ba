#pragma once

// Workers as the tests of judge and report want them: times in seconds since the round began.

#include <cmath>
#include <string>
#include <vector>

#include "muster/report/report.h"

namespace muster::report {

inline TimePoint at(double seconds) {
  return TimePoint(std::chrono::hours(1)) + std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

// Second 0 of the round on the wall clock: 2026-11-15 07:34:00 UTC.
constexpr int64_t kRoundBegan = 1794728040;

// In a namespace of its own: crew.h has a Worker too.
namespace judged {
struct Worker {
  WorkerOutcome outcome;

  Worker(int rank, process::ExitStatus status, double ended) {
    outcome.rank = outcome.local_rank = rank;
    outcome.pid = 4000 + rank;
    outcome.host = "n1";
    outcome.status = status;
    outcome.started = at(0);
    outcome.ended = at(ended);
    outcome.ended_at = std::chrono::system_clock::time_point(std::chrono::seconds(kRoundBegan)) +
                       std::chrono::milliseconds(std::llround(ended * 1000));
  }
  Worker& stopped(double when) {
    outcome.stop_requested = at(when);
    return *this;
  }
  Worker& passed_on() {
    outcome.passed_on = true;
    return *this;
  }
  Worker& wrote(std::string stderr_text) {
    outcome.output.tail = std::move(stderr_text);
    return *this;
  }
  // An error seen in its stderr at that time.
  Worker& failed(double when, std::string stderr_text, std::string exception = {}) {
    outcome.output.first_error_time = at(when);
    outcome.output.exception_line = std::move(exception);
    return wrote(std::move(stderr_text));
  }
  Worker& raised(double when, const std::string& exception) {
    return failed(when,
                  "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n" + exception + "\n",
                  exception);
  }
  Worker& filed(int64_t second, const std::string& message) {
    outcome.error_file = ErrorFile{message, "", kRoundBegan + second, true};
    outcome.error_file_path = "/logs/" + std::to_string(outcome.local_rank) + "/error.json";
    return *this;
  }
  Worker& oom(process::OomVerdict verdict) {
    outcome.oom = verdict;
    return *this;
  }
};
}  // namespace judged
using judged::Worker;

inline process::ExitStatus exited(int code) { return {code, 0}; }
inline process::ExitStatus killed(int signal) { return {0, signal}; }

inline std::vector<WorkerOutcome> outcomes(std::vector<Worker> workers) {
  std::vector<WorkerOutcome> result;
  result.reserve(workers.size());
  for (Worker& worker : workers) result.push_back(std::move(worker.outcome));
  return result;
}

// A job of these workers that failed.
inline Report report_of(std::vector<Worker> workers) {
  Report report;
  report.kind = job::Ending::kWorkerFailed;
  report.entrypoint = "train.py";
  report.command = {"python", "-u", "train.py", "--lr", "0.1"};
  report.run_id = "none";
  report.workers = outcomes(std::move(workers));
  report.verdict = judge(report.workers);
  report.exit_code = job_exit_code(report.workers[report.verdict.root]);
  return report;
}

}  // namespace muster::report
