#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/environment.h"

namespace muster::process {

// The fields of /proc/<pid>/stat that muster uses.
struct ProcStat {
  pid_t pid = 0;
  char state = '?';  // R, S, D, T, Z …
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  pid_t foreground = -1;  // the process group in the foreground of its terminal; -1: it has no terminal
  int threads = 1;
  int64_t reaped_faults = 0;  // page faults of the children that it has waited for: changes when it reaps one

  // A leader whose main thread has ended shows as Z while its other threads run on.
  bool ended() const { return (state == 'Z' || state == 'X') && threads <= 1; }
};

// The command name may hold blanks, brackets and newlines: only the last ')' ends it.
std::optional<ProcStat> parse_proc_stat(std::string_view text);

// Nothing if the process is gone.
std::optional<ProcStat> read_proc_stat(pid_t pid);

// Every process that is visible, in no order.
std::vector<ProcStat> all_processes();

// Those of `all` that are below `root`, each after its parent.
std::vector<ProcStat> tree_below(pid_t root, const std::vector<ProcStat>& all);

// The environment with which a process was started; empty if it cannot be read.
Environment first_environment(pid_t pid);

// Whether a block of NAME=value entries, each ended by NUL, has exactly this entry.
bool has_entry(std::string_view environ_block, std::string_view entry);

}  // namespace muster::process
