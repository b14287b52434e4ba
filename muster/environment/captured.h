#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "muster/process/spawn.h"

namespace muster::environment {

// What the shell of setup.h wrote: words, each ended by NUL. All pure; the bytes may be anything.
//   at <step>                                    it begins with a step
//   failed <status> <line> <file> <command>      a line failed; the shell ends
//   exit <status> <line> <file>                  a line says exit
//   environment, then NAME=VALUE …               the end, and what it left
struct Captured {
  struct Stop {
    int status = 0, line = 0;
    std::string file;     // as bash calls it; "environment" or empty: no file
    std::string command;  // as bash writes it
    bool operator==(const Stop&) const = default;
  };
  std::optional<size_t> step;  // the last that it began
  std::optional<Stop> failed, exited;
  std::optional<Environment> environment;  // complete only when the shell also ended with 0
};
Captured parse_captured(std::string_view bytes);

// The environment of what is started from now on: what the shell left, less what is the shell's own. Those that only say
// where and how deep a shell is (_, SHLVL, PWD, OLDPWD) stay as they were before; so do variables with names that a
// shell cannot have.
Environment settle(const Environment& left, const Environment& before);

}  // namespace muster::environment
