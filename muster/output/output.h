#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/job/spec.h"
#include "muster/job/worker_env.h"
#include "muster/output/console.h"
#include "muster/output/log_layout.h"

namespace muster::output {

// What the report needs to know of a worker's stderr.
struct StderrDigest {
  std::string tail;  // its last bytes (16 KiB at most), from the start of a line
  // When the error it (seems to have) ended with began: the last traceback, abort message, …
  std::optional<TimePoint> first_error_time;
  std::string exception_line;  // "ValueError: bad batch", if a traceback was seen
};

// Descriptors for a child; -1 means: inherit the launcher's.
struct WorkerStdio {
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
  bool stdin_null = true;  // stdin_fd == -1 stands for /dev/null, not for ours
};

// Moves what the workers write to log files and console, line by line. A stream is pumped from its pipe (or pty, where
// our own stream is a terminal) raw into its log file, if it has one, and as labelled lines to the console, which
// spools what its reader does not take: a slow reader delays no worker. The spool is the console's and not the log
// files themselves, because only one file for all keeps the order in which lines of different ranks arrived.
class Output {
 public:
  Output(net::EventLoop& loop, Console& console, const job::JobSpec& job, const LogLayout& layout);
  ~Output();

  // For the log files of one worker to be opened; 3 s unless this is called.
  void set_patience(Duration patience);
  // Opens the streams of one worker of a round. The child's ends are valid until child_started(). If a log file cannot be
  // opened in time, this worker and those that follow in the round write to the console only, which is said.
  Result<WorkerStdio> open(const job::Round& round, const job::Placement& placement);
  void child_started(int local_rank);

  // Reads what the workers have written to stderr by now, even if the console is behind: what comes later was written
  // after what the caller is about to do.
  void catch_up();
  // The worker is gone: reads what its pipes still hold and stops reading, even if somebody kept them open.
  void drain(int local_rank);
  StderrDigest digest(int local_rank) const;
  // Path of its log file of that stream; empty if there is none.
  std::string log_file(int local_rank, job::Stream stream) const;

  // Log files are written by a thread (output/file_writer.h): whether all is written; for the end of a job.
  void close_filtered();
  bool files_idle() const;
  void on_files_idle(std::function<void()> callback);
  // The file of a write that has lasted for so long; empty: none.
  std::string stuck_file(Duration lasting) const;

  // Lines dropped so far because a spool was full, by cap or by disk.
  uint64_t dropped_lines() const;

  void window_resized();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::output
