#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "muster/process/spawn.h"

namespace muster::environment {

// The report of the shell of setup.h: words, each ended by NUL. All pure; the bytes are not trusted.
//   at <step>                                    a step starts
//   failed <status> <line> <file> <command>      a line failed; the shell ends
//   exit <status> <line> <file>                  a line called exit
//   environment, then NAME=VALUE …               all steps are done; the environment that they left
struct Captured {
  struct Stop {
    int status = 0, line = 0;
    std::string file;     // bash's name for it; "environment" or empty: not in a file
    std::string command;  // as bash writes it
    bool operator==(const Stop&) const = default;
  };
  std::optional<size_t> step;  // the last step that started
  std::optional<Stop> failed, exited;
  std::optional<Environment> environment;  // complete only if the shell also exited with 0
};
Captured parse_captured(std::string_view bytes);

// The environment for workers: what the shell left, without the shell's own variables. Variables that describe a shell
// (_, SHLVL, PWD, OLDPWD) keep their values from `before`, and so do variables whose names a shell cannot have.
Environment settle(const Environment& left, const Environment& before);

}  // namespace muster::environment
