#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/job/spec.h"
#include "muster/job/worker_env.h"
#include "muster/output/log_layout.h"
#include "muster/output/output.h"
#include "muster/process/oom.h"
#include "muster/process/spawn.h"
#include "muster/report/events.h"
#include "muster/report/report.h"

namespace muster::agent {

struct Worker {
  job::Placement placement;
  std::string marker;  // see worker_marker()
  process::Child child;
  bool running = false;
  bool killed = false;  // by us, with SIGKILL
  bool swept = false;   // nothing that it started is left
  process::ExitStatus status;
  TimePoint started;
  TimePoint ended;
  std::chrono::system_clock::time_point ended_at;
  std::optional<TimePoint> stop_requested;
  std::set<int> passed_on;  // signals, before it was asked to stop
  process::OomVerdict oom = process::OomVerdict::kNo;
};

// The workers of one round: starts them, signals them, collects them. Decides nothing.
class Crew {
 public:
  Crew(const job::JobSpec& job, const output::LogLayout& layout, output::Output& output, job::Round round,
       const std::string& timer_file);

  // Starts the worker with the next local rank. `cpus` empty: not bound.
  Result<Worker*> start_next(const std::vector<int>& cpus);
  // Reads the machine's counters of memory kills. A worker's end is compared with the last reading but one, so call it
  // when all are started and then now and then: a kill of hours ago explains nothing.
  void read_memory_counters();

  std::vector<Worker>& workers() { return workers_; }
  const std::vector<Worker>& workers() const { return workers_; }
  const job::Round& round() const { return round_; }
  int running() const { return running_; }
  bool anyone_failed() const;
  // The running worker with that pid, or null.
  Worker* find(pid_t pid);
  // The running worker that this process is, or that started it; null for a process of somebody else.
  const Worker* owner_of(pid_t pid) const;

  // Collects a worker that has ended, with everything it wrote; false while it still runs.
  bool collect(Worker& worker);
  // Counts it as killed, though nothing could end it.
  void abandon(Worker& worker);
  // Notes for the report that it was asked to stop, if it still runs, and sends the signal to its group.
  void ask(Worker& worker, int signal, TimePoint now);
  void kill(Worker& worker);
  // To the groups of all that run.
  void signal_all(int signal);
  // The same with a signal that we were sent, which is noted for the report.
  void pass_on(int signal);

  // What each worker that has exited with 0, by `ended_by`, still has running, unless sweep() has ended it. A process that
  // is about to end gets until the deadline to do so. Blocks until the deadline at most.
  struct LeftRunning {
    int rank = 0;
    std::vector<pid_t> pids;
  };
  std::vector<LeftRunning> left_running(TimePoint ended_by, Deadline deadline) const;
  // Ends what is left of workers that exited with 0 by `exited_by` (unless `keep_children`) or failed by `failed_by`.
  // Blocks until the deadline at most. Returns whether other workers have ended since.
  bool sweep(TimePoint exited_by, TimePoint failed_by, bool keep_children, Deadline deadline);
  // Ends everything below this process; returns how much could not be ended.
  size_t end_all(Deadline deadline);

  // For the report. `log`: where an unreadable error file is mentioned.
  std::vector<report::WorkerOutcome> outcomes(Log& log) const;
  // An event for each, when all have ended.
  void record_ends(report::Events& events, bool failed) const;

 private:
  void note_end(Worker& worker, process::ExitStatus status);

  const job::JobSpec& job_;
  const output::LogLayout& layout_;
  output::Output& output_;
  job::Round round_;
  std::string timer_file_;
  std::vector<Worker> workers_;
  int running_ = 0;
  std::optional<process::OomCounters> oom_before_, oom_latest_;
};

}  // namespace muster::agent
