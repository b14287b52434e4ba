#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/job/ending.h"
#include "muster/job/spec.h"
#include "muster/output/output.h"
#include "muster/process/exit_status.h"
#include "muster/process/oom.h"
#include "muster/report/error_file.h"

namespace muster::report {

// All that is known of one worker of the last round when it is judged.
struct WorkerOutcome {
  int rank = 0;
  int local_rank = 0;
  int pid = 0;
  std::string host;
  process::ExitStatus status;
  TimePoint started;
  TimePoint ended;
  std::chrono::system_clock::time_point ended_at;  // the same instant, for people
  std::optional<TimePoint> stop_requested;         // when we asked it to stop, if we did before it ended
  bool passed_on = false;                          // it died of a signal that we were sent, and passed on
  output::StderrDigest output;
  std::string stdout_log, stderr_log;
  std::optional<ErrorFile> error_file;
  std::string error_file_path;
  process::OomVerdict oom = process::OomVerdict::kNo;
};

enum class Blame {
  kNone,  // exit code 0
  kRootCause,
  kItself,    // failed on its own, later than the root cause
  kPeer,      // fell because a peer was gone
  kStopped,   // we ended it
  kPassedOn,  // a signal that we passed on ended it
};

struct Verdict {
  size_t root = 0;            // index of the root cause
  std::vector<Blame> blames;  // one a worker; none is kRootCause when no worker failed by itself
  std::string reason;         // why that one, in words: shown with --verbose and by the tests
  std::string doubt;          // where all that failed lost a peer: who else may be the cause; else empty

  // False when everybody ended well or was stopped by us: then `root` is only the first that did not end well.
  bool has_root_cause() const;
};

// The root cause is the earliest error output or exit, not the first exit that arrived; a worker we stopped can be it
// if its error came before. Words of a lost peer (connection reset, NCCL or gloo aborts) only demote. An old error
// (a minute before the end) counts only when nothing newer explains the failure: it was probably handled. Of those that
// died of a signal that we passed on it is the lowest rank: their order is chance. Pure.
Verdict judge(const std::vector<WorkerOutcome>& workers);

// The job's exit code by its root cause: its own code, 128 + n for a signal; 1 when it had failed already and only its
// end was ours.
int job_exit_code(const WorkerOutcome& root);

// Why the job ended as it did.
struct Report {
  job::Ending kind = job::Ending::kMusterFailed;
  int signal = 0;                       // signalled: the one that we were sent
  std::string signalled_host;           // it was the muster of that node; empty: this one
  std::string message;                  // where no worker is the cause: what failed, in a sentence
  std::string note;                     // what else there is to say of it: why no restart followed
  std::vector<std::string> lost_nodes;  // a sentence each
  std::string entrypoint;
  std::vector<std::string> command;  // of the root cause
  std::string run_id;
  int round = 0;
  int restarts = 0;  // used so far
  int max_restarts = 0;
  std::vector<WorkerOutcome> workers;
  Verdict verdict;
  int exit_code = 0;
};

// For people: the root cause with its last words, the others one line each. `colour` for a terminal. All of them end
// with a newline and are valid UTF-8 without control characters, whatever the workers wrote.
std::string render(const Report& report, bool colour);
// A report that was rendered without colour, elsewhere, for a terminal here.
std::string with_bright_headline(const std::string& report);
// torchrun's ChildFailedError: the last line of its traceback and the box. Bytes of the error file are shown as they
// are, as there.
std::string render_torchrun(const Report& report);
// The schema is in docs/guide/failures.md.
std::string to_json(const Report& report);

}  // namespace muster::report
