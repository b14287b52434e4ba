#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/fd.h"
#include "muster/base/result.h"
#include "muster/process/exit_status.h"

namespace muster::process {

// `fd` is the caller's descriptor, `place` its number in the child.
struct PassedFd {
  int fd;
  int place;
};

struct SpawnSpec {
  std::string program = {};  // resolved path; argv[0] is separate
  std::vector<std::string> argv = {};
  Environment environment = {};       // complete, nothing is inherited
  std::string directory = {};         // empty: the caller's
  int stdin_fd = -1;                  // -1: /dev/null
  int stdout_fd = -1;                 // -1: the caller's
  int stderr_fd = -1;                 // -1: the caller's
  std::vector<PassedFd> passed = {};  // further ones; places are different and above 2
  std::vector<int> cpus = {};         // affinity; empty: the caller's
  uint64_t open_files = 0;            // soft RLIMIT_NOFILE; 0: the caller's
  bool new_session = true;            // setsid(): a group of its own, no controlling terminal
};

struct Child {
  pid_t pid = -1;
  Fd pidfd;
};

// vfork + exec, so that the cost does not grow with this process. The child starts with default signal dispositions,
// an empty mask, no descriptor but 0 to 2 and those passed, and SIGKILL as its parent-death signal. An exec that fails
// is an error here (kNotFound, kNotExecutable, kSystem), not a child that exits.
Result<Child> spawn(const SpawnSpec& spec);

// Collects a child that has ended; nothing while it still runs. Never blocks.
std::optional<ExitStatus> try_reap(const Child& child);

// Signals the whole process group of a child that leads one; false if no process is left.
bool signal_group(pid_t leader, int signal);

}  // namespace muster::process
