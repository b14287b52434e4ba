#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/process/spawn.h"

namespace muster::environment {

// What is to be done on a node before anything of the job is looked up or started there.
struct Setup {
  std::vector<std::string> modules;    // --modules
  std::string conda;                   // --conda: a name, or the path of an environment
  std::string venv;                    // --venv
  std::vector<std::string> prologues;  // --prologue, as typed
  Environment set;                     // --env-file, then --env: the last value of a name wins

  bool needs_shell() const { return !modules.empty() || !conda.empty() || !venv.empty() || !prologues.empty(); }
  bool empty() const { return !needs_shell() && set.empty(); }
};

// One thing that the shell does. Modules come first, since they may bring the conda or Python that the next ones need;
// prologues last, in their order, since they may refine all of it.
struct Step {
  enum class Kind { kModule, kConda, kVenv, kSource, kCommand };
  Kind kind;
  std::string text;  // name, path, or the command as typed

  // As people would type it: "module load gcc", "source setup.sh"; a command's first line. Escaped.
  std::string title() const;
  bool operator==(const Step&) const = default;
};

// How a word of --prologue that names a file is used, by the file's first bytes: a shell script is sourced, anything
// else (another interpreter's script, a program) is run as a command.
bool is_sourced(std::string_view first_bytes);

// `head` gives the first bytes of a file; nothing: there is none of that name. Pure but for it.
using FileHead = std::function<std::optional<std::string>(const std::string& path)>;
std::vector<Step> steps(const Setup& setup, const FileHead& head);

// What to run: bash, told to do the steps and then to write its environment. Its stdout is the report (captured.h),
// whatever the steps print goes to its stderr. `cat` is the path of cat, needed when PATH may be anything. The script
// takes one line, so that bash's own messages count the lines of a command as its author does.
std::vector<std::string> shell_command(const std::string& bash, const std::string& cat, const std::vector<Step>& steps);
// What is on its stdin, a file: the steps' texts. A prologue may have a password in it, and arguments are there for
// everybody on the machine to read. The steps themselves find nothing on their stdin.
std::string shell_input(const std::vector<Step>& steps);

}  // namespace muster::environment
