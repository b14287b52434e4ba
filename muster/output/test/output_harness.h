#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "muster/base/fd.h"
#include "muster/net/event_loop.h"

// Pieces that the tests of console and output share.
namespace muster::output::testing {

struct Pipe {
  Fd read;
  Fd write;
};

inline Pipe make_pipe() {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

// What can be read now, without waiting.
inline std::string read_available(int fd) {
  EXPECT_TRUE(set_nonblocking(fd, true));
  std::string all;
  char buffer[65536];
  ssize_t n;
  while ((n = ::read(fd, buffer, sizeof buffer)) > 0) all.append(buffer, static_cast<size_t>(n));
  return all;
}

// Runs the loop until the condition holds; false after ten seconds.
inline bool run_until(net::EventLoop& loop, const std::function<bool()>& condition) {
  Deadline deadline = Deadline::in(std::chrono::seconds(10));
  while (!condition()) {
    if (deadline.passed()) return false;
    loop.run_until(Deadline::in(std::chrono::milliseconds(1)));
  }
  return true;
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string path = ::testing::TempDir() + "muster_test_XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    path_ = path;
  }
  ~TemporaryDirectory() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  // A disk of its own that is soon full; false where we may not mount.
  bool mount_small(const char* size) {
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, size) == 0;
    return mounted_;
  }

 private:
  std::string path_;
  bool mounted_ = false;
};

}  // namespace muster::output::testing
