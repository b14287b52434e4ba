#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/process/spawn.h"

namespace muster::environment {

// What to do on a node before muster looks for the program there or starts anything.
struct Setup {
  std::vector<std::string> modules;    // --modules
  std::string conda;                   // --conda: a name, or the path of an environment
  std::string venv;                    // --venv
  std::vector<std::string> prologues;  // --prologue, as typed
  Environment set;                     // --env-file, then --env: the last value of a name wins

  bool needs_shell() const { return !modules.empty() || !conda.empty() || !venv.empty() || !prologues.empty(); }
  bool empty() const { return !needs_shell() && set.empty(); }
};

// One step of the shell. Modules come first, because they may provide the conda or Python that later steps need.
// Prologues come last, in their order, because they may change everything.
struct Step {
  enum class Kind { kModule, kConda, kVenv, kSource, kCommand };
  Kind kind;
  std::string text;  // name, path, or the command as typed

  // As a user would type it: "module load gcc", "source setup.sh"; of a command the first line. Escaped.
  std::string title() const;
  bool operator==(const Step&) const = default;
};

// Whether to source a file that --prologue names, by its first bytes: true for a shell script. Any other file (a script
// of another interpreter, a program) is run as a command.
bool is_sourced(std::string_view first_bytes);

// `head` returns the first bytes of a file, or nothing if the file does not exist. Pure except for `head`.
using FileHead = std::function<std::optional<std::string>(const std::string& path)>;
std::vector<Step> steps(const Setup& setup, const FileHead& head);

// The command to run: bash does the steps and then writes its environment. Its stdout is the report (captured.h); what
// the steps print goes to its stderr. `cat` is the path of cat, because a step may change PATH. The script is one line,
// so that the line numbers in bash's messages are those of the user's command.
std::vector<std::string> shell_command(const std::string& bash, const std::string& cat, const std::vector<Step>& steps);
// The contents of its stdin, a file: the texts of the steps. They are not arguments, because a prologue may contain a
// password and every user of the machine can read arguments. The stdin of the steps themselves is empty.
std::string shell_input(const std::vector<Step>& steps);

}  // namespace muster::environment
