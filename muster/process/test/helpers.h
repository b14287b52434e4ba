#pragma once

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/process/spawn.h"

namespace muster::process::test {

using namespace std::chrono_literals;

// An environment of these variables alone.
inline GetEnv environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  };
}

// A folder that is gone when the test is.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-process-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // Writes a file, its folders included, and returns its path.
  std::string write(const std::string& name, const std::string& text, bool executable = false) const {
    std::filesystem::path file = path_ + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    if (executable) std::filesystem::permissions(file, std::filesystem::perms(0755));
    return file.string();
  }

 private:
  std::string path_;
};

struct Pipe {
  Fd read;
  Fd write;
};
inline Pipe make_pipe() {
  int fds[2];
  MUSTER_CHECK(pipe2(fds, O_CLOEXEC) == 0);
  return {Fd(fds[0]), Fd(fds[1])};
}

// `sh -c script` with a small environment; more is set by the test.
inline SpawnSpec shell(const std::string& script) {
  return {.program = "/bin/sh", .argv = {"sh", "-c", script}, .environment = {{"PATH", "/usr/bin:/bin"}}};
}

// Waits for the pidfd, then reaps.
inline std::optional<ExitStatus> await_exit(const Child& child, Duration limit = 20s) {
  pollfd entry{child.pidfd.get(), POLLIN, 0};
  poll(&entry, 1, Deadline::in(limit).poll_timeout());
  return try_reap(child);
}

// Everything until all writers have closed.
inline std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  ssize_t size;
  while ((size = ::read(fd, buffer, sizeof buffer)) > 0) text.append(buffer, static_cast<size_t>(size));
  return text;
}

// The first line.
inline std::string read_line(int fd) {
  std::string text;
  char c;
  while (::read(fd, &c, 1) == 1 && c != '\n') text += c;
  return text;
}

// Runs to the end and returns what it wrote on stdout.
inline std::string output_of(SpawnSpec spec) {
  Pipe pipe = make_pipe();
  spec.stdout_fd = pipe.write.get();
  auto child = spawn(spec);
  MUSTER_CHECK(child.ok());
  pipe.write.reset();
  std::string text = read_all(pipe.read.get());
  MUSTER_CHECK(await_exit(*child).has_value());
  return text;
}

}  // namespace muster::process::test
