#include "muster/environment/set_up_failure.h"

#include <fmt/format.h>

#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/environment/secrets.h"

namespace muster::environment {
namespace {

constexpr size_t kShown = 200;  // bytes of a line
constexpr int kNotFound = 127;

// Masked before it is cut, so that no half of a secret is left.
std::string shortened(std::string_view line) {
  const std::string text = masked_assignments(trim(line.substr(0, line.find('\n'))));
  return text.size() <= kShown ? escaped(text) : escaped(text.substr(0, kShown)) + "…";
}

std::string nth_line(std::string_view text, int line) {
  const auto lines = split(text, '\n');
  const auto index = static_cast<size_t>(line) - 1;
  return line >= 1 && index < lines.size() ? std::string(lines[index]) : std::string();
}

// "line 3 of setup.sh, `module load x`," or "--prologue `false`".
std::string place(const Step& step, const Captured::Stop& stop, const LineOf& line_of) {
  const bool in_file = !stop.file.empty() && stop.file != "environment";
  std::string line = in_file ? line_of(stop.file, stop.line) : nth_line(step.text, stop.line);
  if (trim(line).empty()) line = stop.command;
  if (in_file) return fmt::format("line {} of {}, `{}`,", stop.line, escaped(stop.file), shortened(line));
  if (step.text.find('\n') == std::string::npos) return fmt::format("--prologue `{}`", shortened(step.text));
  return fmt::format("line {} of --prologue, `{}`,", stop.line, shortened(line));
}

bool has_lines(const Step& step) { return step.kind == Step::Kind::kSource || step.kind == Step::Kind::kCommand; }

std::string way_out(const Step& step, int status) {
  switch (step.kind) {
    case Step::Kind::kModule:
      return status == kNotFound ? "install one of them there, or set MODULESHOME to where it is"
                                 : "`module avail` on that node lists those that exist";
    case Step::Kind::kConda:
      return status == kNotFound ? "put conda on PATH, or set CONDA_EXE"
                                 : "`conda env list` on that node lists those that exist";
    case Step::Kind::kVenv:
      return "`python -m venv DIR` makes one";
    case Step::Kind::kCommand:
      if (status == kNotFound) return "that node has neither such a command nor such a file";
      break;
    case Step::Kind::kSource:
      break;
  }
  return {};
}

}  // namespace

Error explain_failure(const std::vector<Step>& steps, const Captured& captured, const process::ExitStatus& status,
                      const LineOf& line_of) {
  Error error{ErrorKind::kUsage, {}, {}};
  if (!captured.step || *captured.step >= steps.size()) {
    error.message = fmt::format("bash did not begin with the set-up: {}", status.text());
    return error;
  }
  const Step& step = steps[*captured.step];
  if (const auto& stop = captured.failed) {
    // Of a file as a whole: it says `return 3`, or cannot be read to its end.
    const bool whole = !has_lines(step) || (step.kind == Step::Kind::kSource && stop->file.empty());
    error.message = fmt::format("{} failed with exit code {}",
                                whole ? fmt::format("`{}`", step.title()) : place(step, *stop, line_of), stop->status);
    error.hint = way_out(step, stop->status);
  } else if (const auto& exit = captured.exited) {
    error.message = fmt::format("{} ends the set-up with exit code {}", place(step, *exit, line_of), exit->status);
    error.hint = exit->status == 0 ? "a file that is sourced ends with return, not with exit" : "";
  } else if (captured.environment) {
    error.message = fmt::format("the environment that the set-up leaves cannot be read: {}", status.text());
    error.hint = "it may be larger than any program can be started with";
  } else if (status.signal != 0) {
    error.message = fmt::format("`{}` was ended by {}", step.title(), status.text());
  } else {
    error.message =
        fmt::format("`{}` ended the shell (exit code {}) before its environment was known", step.title(), status.code);
    error.hint = "leave out exec, and set -e inside of functions";
  }
  return error;
}

}  // namespace muster::environment
