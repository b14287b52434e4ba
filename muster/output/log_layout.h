#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "muster/base/result.h"
#include "muster/job/spec.h"

namespace muster::output {

// torchrun's tree: <base>/<run_id>_<8 chars>/attempt_<n>/<local rank>/{stdout.log,stderr.log,error.json}. With
// `muster run`, a job of a scheduler has its id in front of <run_id>, and <base>/latest is a link to the newest run.
// Without --log-dir the base is a fresh <TMPDIR>/torchelastic_<8 chars> (muster_<8 chars> for `muster run`). When
// `muster run` is asked for no file at all, that one directory is all there is: error files lie flat in it, so a job
// that writes none costs one mkdir and one rmdir.
//
// Where a node of several files its logs, with `muster run`: <base>/<run_id>_<job>/r<round>/<host>/<rank>.{out,err}, the
// same tree on every node, so that a shared file system shows all of them together. It is made by join_job().
//
// The base is whatever the user gives, a link too. What is made below it must be this user's own: a directory that is
// there already and is a link, or another user's, is an error, and one that other users can write to is closed to them. So
// no other user can lead log files elsewhere.
class LogLayout {
 public:
  // Creates base and run directory (0700). kUsage when it cannot be written, or --log-dir is a file.
  static Result<LogLayout> create(const job::JobSpec& job);
  // What the user should know about the base; empty: nothing.
  const std::string& warning() const { return warning_; }

  // The node has joined the job of that id.
  Result<void> join_job(const std::string& job_id);

  bool is_shared() const { return shared_; }   // by the nodes of a job: join_job() makes its directory
  bool disabled() const { return disabled_; }  // --log-dir /dev/null
  void disable() { disabled_ = true; }
  const std::string& run_dir() const { return run_dir_; }
  // Made by make_attempt(); every round has its own, so nothing is ever wiped.
  std::string attempt_dir(int round) const;
  std::string worker_dir(int round, int local_rank) const;
  std::string stream_file(int round, int local_rank, job::Stream stream) const;
  std::string error_file(int round, int local_rank) const;  // empty when disabled
  std::string filtered_file(int round, job::Stream stream) const;

  // `first_rank`: of this node's workers in that round. A tree that was removed during the run is made again; if it
  // cannot be, the job goes on without log files (disabled()). Returns what to tell the user about that, mostly nothing.
  Result<std::string> make_attempt(int round, int workers, int first_rank = 0);
  // The tree of ours that is worth nothing when it holds no file; empty when there is none.
  std::string temporary_tree() const { return temporary_ ? base_ : std::string(); }
  // Removes what is a temporary tree of ours and holds no file anybody asked for.
  void remove_if_temporary(bool keep_error_files) const;

 private:
  Result<void> make_own(const std::string& path, mode_t mode);
  Result<void> make_run_dir();
  Result<void> make_again();
  Result<void> make_directories(int round, int workers);
  void link_latest() const;

  std::string base_;
  std::string run_dir_;
  std::string run_id_, host_;
  bool disabled_ = false;
  bool own_base_ = false;   // the base is not the user's
  bool temporary_ = false;  // nobody asked for a file: remove it at the end
  bool flat_ = false;
  bool shared_ = false;  // by the nodes of a job
  bool linked_ = false;  // has a `latest` beside it
  bool made_ = false;    // a round's directories have been made
  int first_rank_ = 0;   // of the last make_attempt()
  std::string warning_;
  // What to tell about a directory that other users can write to; empty once make_attempt() has said so.
  std::optional<std::string> exposed_;
};

// Removes a tree of directories but for those that lead to a file.
void remove_empty_directories(const std::string& directory);

}  // namespace muster::output
