#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/result.h"

namespace muster::output {

// A thread that appends to a file that is open, so that a file system that does not respond (NFS, Lustre, FUSE) never
// blocks the caller. Everything that it is given waits in memory: the caller keeps that small by asking waiting(). A write
// that fails loses the rest of what was being written; the next one is tried all the same.
class Appender {
 public:
  // Writes at the offset that `fd` shares with its duplicates. The caller keeps `fd`.
  static Result<std::unique_ptr<Appender>> start(int fd);
  ~Appender();  // leaves behind a thread that is stuck
  Appender(const Appender&) = delete;
  Appender& operator=(const Appender&) = delete;

  // Takes the bytes: the string is empty afterwards, and has memory to fill again.
  void append(std::string& bytes);
  size_t waiting() const;  // bytes that are not written
  bool idle() const;       // all is written, and no failure waits to be taken

  struct Failure {
    int error;            // errno of the last one
    uint64_t lost_lines;  // of all since the last time that this was asked
  };
  std::optional<Failure> take_failure();

  // Whether a write has lasted for so long, and of which file.
  bool stuck(Duration lasting) const;
  std::string path() const;

  // Readable once all is written, until clear_done(); also after a failure.
  int done_fd() const;
  void clear_done();
  // Blocks; whether nothing waits any more before the deadline.
  bool wait(Deadline deadline);

 private:
  struct Shared;
  explicit Appender(std::shared_ptr<Shared> shared);

  std::shared_ptr<Shared> shared_;  // with the thread
};

}  // namespace muster::output
