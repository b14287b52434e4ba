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

// The first `limit` bytes of a file. For small files: reads all at once.
Result<std::string> read_file(const std::string& path, size_t limit = 16 << 20);
// The same for a regular file only: never waits for the other end of a FIFO.
Result<std::string> read_regular_file(const std::string& path, size_t limit = 16 << 20);
// A file without a name that contains this text, positioned at its beginning. For text that only a child may read.
// Unlike a pipe it has no size limit.
Result<Fd> memory_file(std::string_view text);
Result<void> set_nonblocking(int fd, bool on);

// Writes everything, also after short writes and EINTR. For regular files, and for stdout and stderr before there
// is a Console. The descriptor must be blocking, and there is no deadline.
Result<void> write_all(int fd, const void* data, size_t size);

// Creates or truncates the file. Error: the reader of a FIFO, pipe or terminal reads nothing for two seconds.
Result<void> write_whole_file(const std::string& path, const std::string& text);

}  // namespace muster
