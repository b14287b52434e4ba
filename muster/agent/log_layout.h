#pragma once

#include <string>

#include "muster/agent/job.h"
#include "muster/base/result.h"

namespace muster::agent {

// torchrun's tree: <base>/<run_id>_<8 chars>/attempt_<n>/<local rank>/{stdout.log,stderr.log,error.json}.
// Without --log-dir the base is a fresh <TMPDIR>/torchelastic_<8 chars> (muster_<8 chars> for `muster run`). When
// `muster run` is asked for no file at all, that one directory is all there is: error files lie flat in it, so a job
// that writes none costs one mkdir and one rmdir.
//
// Where a node of several files its logs, with `muster run`: <base>/<run_id>_<job>/r<round>/<host>/<rank>.{out,err}, the
// same tree on every node, so that a shared file system shows all of them together. It is made by join_job().
class LogLayout {
 public:
  // Creates base and run directory (0700). kUsage when it cannot be written, or --log-dir is a file.
  static Result<LogLayout> create(const JobSpec& job);

  // The node has joined the job of that id.
  Result<void> join_job(const std::string& job_id);

  bool disabled() const { return disabled_; }  // --log-dir /dev/null
  const std::string& run_dir() const { return run_dir_; }
  // Made by make_attempt(); every round has its own, so nothing is ever wiped.
  std::string attempt_dir(int round) const;
  std::string worker_dir(int round, int local_rank) const;
  std::string stream_file(int round, int local_rank, Stream stream) const;
  std::string error_file(int round, int local_rank) const;  // empty when disabled
  std::string filtered_file(int round, Stream stream) const;

  // `first_rank`: of this node's workers in that round.
  Result<void> make_attempt(int round, int workers, int first_rank = 0);
  // The tree of ours that is worth nothing when it holds no file; empty when there is none.
  std::string temporary_tree() const { return temporary_ ? base_ : std::string(); }
  // Removes what is a temporary tree of ours and holds no file anybody asked for.
  void remove_if_temporary(bool keep_error_files) const;

 private:
  std::string base_;
  std::string run_dir_;
  std::string run_id_, host_;
  bool disabled_ = false;
  bool temporary_ = false;  // nobody asked for a file: remove it at the end
  bool flat_ = false;
  bool shared_ = false;  // by the nodes of a job
  int first_rank_ = 0;   // of the last make_attempt()
};

// Removes a tree of directories but for those that lead to a file.
void remove_empty_directories(const std::string& directory);

}  // namespace muster::agent
