#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "muster/base/result.h"

namespace muster {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// The first `limit` bytes of a file; for small ones, which are read at once.
Result<std::string> read_file(const std::string& path, size_t limit = 16 << 20);
// The same of a regular file only: never waits for the other end of a FIFO.
Result<std::string> read_regular_file(const std::string& path, size_t limit = 16 << 20);
// A file without a name that holds this text, to be read from its beginning: for what a child is told and nobody else
// may read. Unlike a pipe it holds any amount.
Result<Fd> memory_file(std::string_view text);
Result<void> set_nonblocking(int fd, bool on);

// Writes everything, also after short writes and EINTR. For regular files and our own console before there is a
// Console: the descriptor must be blocking, and there is no deadline but its reader's.
Result<void> write_all(int fd, const void* data, size_t size);

// Makes or empties the file. A FIFO, pipe or terminal whose reader takes nothing for two seconds is an error.
Result<void> write_whole_file(const std::string& path, const std::string& text);

}  // namespace muster
