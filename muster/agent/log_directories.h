#pragma once

#include <string>

#include "muster/base/log.h"
#include "muster/base/result.h"
#include "muster/job/round.h"
#include "muster/job/spec.h"
#include "muster/output/log_layout.h"

namespace muster::agent {

// The directories of a node's log files. Their file system may not respond: a thread makes them in a copy of the layout,
// which may outlive the call. If it takes too long, the job goes on without log files.
class LogDirectories {
 public:
  // Before anything runs: a directory that was asked for and cannot be used is an error. Blocks for 10 s at most.
  static Result<LogDirectories> create(const job::JobSpec& job);

  const output::LogLayout& layout() const { return layout_; }
  // This node has become a member of the job with this id. These two block for `patience` at most.
  Result<void> join_job(const std::string& id, Duration patience, Log& log);
  Result<void> make_attempt(const job::Round& round, int workers, Duration patience, Log& log);
  // At the end: where the logs are. Blocks for a second at most.
  void say_where(bool on_every_node, Log& log) const;

 private:
  LogDirectories(output::LogLayout layout, std::string base) : layout_(std::move(layout)), base_(std::move(base)) {}
  void go_on_without(const std::string& directory, Log& log);

  output::LogLayout layout_;
  std::string base_;  // as given
};

}  // namespace muster::agent
