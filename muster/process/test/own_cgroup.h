#pragma once

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "muster/process/cgroup.h"

namespace muster::process::test {

// A cgroup (v1) below this process's own, for processes of a test; gone when the test is. Needs root in most places.
class OwnCgroup {
 public:
  explicit OwnCgroup(const std::string& controller) {
    for (const CgroupPlace& place : read_cgroups(controller, "")) {
      if (place.v2) continue;
      std::string folder = fmt::format("{}/muster-test-{}", place.folders.front(), getpid());
      if (mkdir(folder.c_str(), 0755) == 0) path_ = folder;
    }
  }
  ~OwnCgroup() {
    if (!path_.empty()) rmdir(path_.c_str());
  }
  OwnCgroup(const OwnCgroup&) = delete;
  OwnCgroup& operator=(const OwnCgroup&) = delete;

  bool made() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  bool set(const std::string& file, const std::string& value) const {
    std::ofstream stream(path_ + "/" + file);
    stream << value << std::flush;
    return stream.good();
  }

  // Runs a function in a forked process inside the cgroup; its result (0 to 255), 255 if the process did not get there, or
  // minus the signal that ended it.
  template <typename Function>
  int run_inside(Function function) const {
    pid_t pid = fork();
    if (pid == 0) _exit(set("cgroup.procs", std::to_string(getpid())) ? function() : 255);
    int status = 0;
    if (pid < 0) return -errno;
    while (waitpid(pid, &status, 0) != pid)
      if (errno != EINTR) return -errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  std::string path_;
};

}  // namespace muster::process::test
