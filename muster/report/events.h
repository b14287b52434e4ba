#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/job/spec.h"
#include "muster/job/worker_env.h"
#include "muster/output/appender.h"
#include "muster/output/console.h"
#include "muster/process/exit_status.h"

namespace muster::report {

// The file of --events. A regular file is written by a thread, since its file system may not respond. A FIFO, a pipe or a
// terminal is written without waiting for its reader. Either way up to kMostWaiting bytes wait; what comes then is dropped
// by whole lines, counted and said at the end.
class EventsFile {
 public:
  static constexpr size_t kMostWaiting = 1 << 20;

  EventsFile() = default;
  // Emptied at once. kUsage when it cannot be written, which a FIFO that has no reader cannot. Waits for its file system
  // for seconds at most.
  static Result<EventsFile> open(const std::string& path);
  explicit operator bool() const { return static_cast<bool>(fd_); }
  // Whole lines. An error is said once, and ends it.
  void write(std::string_view lines, Log& log);
  // No more will come: waits for a slow reader or disk until the deadline.
  void finish(Deadline deadline, Log& log);

 private:
  void write_some(Log& log);
  void hand_over(Log& log);
  void fail(int error, Log& log);
  size_t waiting() const { return waiting_.size() + (appender_ ? appender_->waiting() : 0); }

  std::string path_;
  Fd fd_;
  std::unique_ptr<output::Appender> appender_;  // of a regular file
  std::string waiting_;
  uint64_t dropped_ = 0;  // lines
};

// What happened, as JSON lines: torchrun's event objects on stderr (--event-log-handler console) and into a file
// (--events FILE). Call in torchrun's order: rendezvous, ranks_assigned and worker_started for each round; at the end
// worker_ended for each worker of the last round (in muster run of every round), then agent_ended. After a signal there is
// no worker_ended.
class Events {
 public:
  // Opens the file (emptied) at once: kUsage when it cannot be written. With `send` lines go there instead: the launcher
  // has one file for the whole job.
  using Send = std::function<void(std::string line)>;
  static Result<Events> open(const job::JobSpec& job, output::Console& console, Send send = {});

  void rendezvous(Duration took, int restart_count);
  void ranks_assigned(Duration took, const job::Round& round);
  void worker_started(const job::Placement& placement, int pid, int restart_count);
  // raw_error: the error file's text, empty for none. A worker that ended well in a job that failed is TERMINATED.
  void worker_ended(const job::Placement& placement, int pid, process::ExitStatus status, const std::string& raw_error,
                    int restart_count, bool job_failed);
  // `exception`: why the agent itself failed; empty when it did not, whatever became of the workers.
  void agent_ended(const std::string& exception, int restart_count);

 private:
  struct Event;
  Events() = default;
  bool enabled() const { return on_console_ || file_ || send_; }
  void record(const Event& event);

  const job::JobSpec* job_ = nullptr;
  output::Console* console_ = nullptr;
  bool on_console_ = false;
  EventsFile file_;
  Send send_;
  TimePoint started_;
  std::string hostname_;
  // This node among the others. torchrun's agent does not know it in the first rendezvous' events, and has that of the
  // last round in those of a later one.
  struct Group {
    int rank, world_size;
  };
  std::optional<Group> group_;
};

}  // namespace muster::report
