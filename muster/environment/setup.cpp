#include "muster/environment/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/environment/secrets.h"

namespace muster::environment {
namespace {

// What our lines need in the shell that also runs the user's. All names of ours begin with __muster_, all words are
// quoted, and nothing relies on options that a prologue may change (set -e, -u, -f, IFS …). No newlines: see the
// header.
constexpr std::string_view kFunctions =
    // The report has a descriptor of its own: scripts print to stdout.
    "exec 97>&1 1>&2; "
    "__muster_say() { builtin printf '%s\\0' \"$@\" >&97; }; "
    // A failure counts where `set -e` would count it, in the lines of a prologue or of a file that it sources. What
    // happens inside functions, or further down, is the business of those who wrote them.
    "__muster_failed() { "
    "if [[ ${#BASH_SOURCE[@]} -gt 2 ]]; then return 0; fi; "
    // A file whose last line is `[ -d x ] && y` has not failed. One that returns a number has: then the status before
    // the return, which the RETURN trap sees, was another.
    "if [[ $BASH_COMMAND == 'source \"$__muster_file\"' && $1 == \"${__muster_left-}\" ]]; then return 0; fi; "
    "__muster_say failed \"$1\" \"${BASH_LINENO[0]}\" \"${BASH_SOURCE[1]-}\" \"$BASH_COMMAND\"; builtin exit 1; }; "
    // An exit is told with its line before it happens.
    "exit() { local __muster_status=$?; "
    "if [[ $BASH_SUBSHELL == 0 ]]; then "
    "__muster_say exit \"${1-$__muster_status}\" \"${BASH_LINENO[0]}\" \"${BASH_SOURCE[1]-}\"; fi; "
    "builtin exit \"${1-$__muster_status}\"; }; "
    // The first of these files that makes a command `module`.
    "__muster_first() { local __muster_f __muster_files=(\"$@\"); set --; for __muster_f in \"${__muster_files[@]}\"; "
    "do "
    "if [[ -n $__muster_f && -r $__muster_f ]]; then source \"$__muster_f\"; "
    "if declare -F module >/dev/null; then return 0; fi; fi; done; return 1; }; ";

// `module` and `conda` are shell functions that a login shell has and a script often has not: they are found when
// somebody calls them.
constexpr std::string_view kFinders =
    "__muster_site() { local __muster_f; for __muster_f in /etc/profile.d/*.sh; do "
    "if [[ -r $__muster_f && $(<\"$__muster_f\") == *module* ]]; then __muster_first \"$__muster_f\" && return 0; fi; "
    "done; return 1; }; "
    "__muster_find_module() { __muster_first \"${LMOD_PKG:+$LMOD_PKG/init/bash}\" "
    "\"${MODULESHOME:+$MODULESHOME/init/bash}\" || __muster_site || __muster_first "
    "/usr/share/lmod/lmod/init/bash /usr/share/modules/init/bash /usr/share/Modules/init/bash /opt/modules/init/bash; "
    "}; "
    "if ! declare -F module >/dev/null; then "
    "module() { unset -f module; if __muster_find_module; then module \"$@\"; else "
    "builtin printf '%s\\n' 'neither lmod nor environment-modules is installed here' >&2; return 127; fi; }; "
    "ml() { unset -f ml; declare -F __muster_find_module >/dev/null && unset -f module && __muster_find_module; "
    "ml \"$@\"; }; fi; "
    // The conda that made the environment in this directory: the base that it is or lies below, else the one that
    // conda-meta/history names.
    "__muster_maker() { local __muster_f __muster_p=${1%/} __muster_line; "
    "if [[ $1 != */* || ! -d $__muster_p/conda-meta ]]; then return 0; fi; "
    "for __muster_f in \"$__muster_p/bin/conda\" \"$__muster_p/../../bin/conda\"; do "
    "if [[ -x $__muster_f ]]; then builtin printf '%s' \"$__muster_f\"; return 0; fi; done; "
    "if [[ ! -r $__muster_p/conda-meta/history ]]; then return 0; fi; "
    "while IFS= builtin read -r __muster_line; do if [[ $__muster_line == '# cmd: '/* ]]; then "
    "__muster_f=${__muster_line#'# cmd: '}; __muster_f=${__muster_f%% *}; __muster_f=${__muster_f%/*}/conda; "
    "if [[ -x $__muster_f ]]; then builtin printf '%s' \"$__muster_f\"; return 0; fi; fi; "
    "done <\"$__muster_p/conda-meta/history\"; return 0; }; "
    // What `conda activate` does with the directory of an environment, for a node that has no conda.
    "__muster_activate() { local __muster_f; CONDA_PREFIX=$(builtin cd -- \"$1\" && builtin pwd) || return 1; "
    "export CONDA_PREFIX CONDA_DEFAULT_ENV=$1 CONDA_SHLVL=1 PATH=$CONDA_PREFIX/bin:$PATH; set --; "
    "for __muster_f in \"$CONDA_PREFIX\"/etc/conda/activate.d/*.sh; do "
    "if [[ -r $__muster_f ]]; then source \"$__muster_f\"; fi; done; return 0; }; "
    "__muster_find_conda() { local __muster_f; for __muster_f in \"${CONDA_EXE-}\" \"$(type -P conda)\" "
    "\"$(__muster_maker \"${__muster_prefix-}\")\" "
    "{\"${HOME-}\",/opt,/usr/local}/{miniconda3,miniforge3,mambaforge,anaconda3,miniconda,conda}/bin/conda; do "
    "if [[ -n $__muster_f && -x $__muster_f ]]; then "
    "eval \"$(\"$__muster_f\" shell.bash hook)\" && declare -F conda >/dev/null && return 0; fi; done; "
    "for __muster_f in \"${MAMBA_EXE-}\" \"$(type -P micromamba)\" \"$(type -P mamba)\"; do "
    "if [[ -n $__muster_f && -x $__muster_f ]]; then eval \"$(\"$__muster_f\" shell hook --shell bash)\" && "
    "eval \"conda() { ${__muster_f##*/} \\\"\\$@\\\"; }\" && return 0; fi; done; return 1; }; "
    "if ! declare -F conda >/dev/null; then "
    "conda() { unset -f conda; if __muster_find_conda; then conda \"$@\"; "
    "elif [[ ${1-} == activate && ${2-} == */* && -d $2/conda-meta ]]; then __muster_activate \"$2\"; else "
    "builtin printf '%s\\n' 'conda was not found here' >&2; return 127; fi; }; fi; "
    "__muster_venv() { local VIRTUAL_ENV_DISABLE_PROMPT=1 __muster_f=$1/bin/activate; set --; "
    "if [[ -r $__muster_f ]]; then source \"$__muster_f\"; else "
    "builtin printf '%s\\n' \"there is no $__muster_f\" >&2; return 1; fi; }; ";

// The texts are read from a descriptor of our own, wherever that of BASH_ENV's script has got to. Positional parameters
// are what a sourced file takes for its arguments: it gets none.
constexpr std::string_view kBegin =
    "__muster_cat=$1; __muster_text=(); while IFS= builtin read -r -d '' __muster_now; do "
    "__muster_text+=(\"$__muster_now\"); done </proc/self/fd/0; exec 0</dev/null; "
    "set --; trap '__muster_failed \"$?\"' ERR; ";

// Nothing that is found by its name: PATH is the user's by now.
constexpr std::string_view kEnd =
    "__muster_say environment; builtin exec \"$__muster_cat\" /proc/self/environ >&97 97>&-";

std::string_view call(Step::Kind kind) {
  switch (kind) {
    case Step::Kind::kModule:
      return "module load \"$__muster_now\"; ";
    case Step::Kind::kConda:
      return "__muster_prefix=$__muster_now; conda activate \"$__muster_now\"; ";
    case Step::Kind::kVenv:
      return "__muster_venv \"$__muster_now\"; ";
    case Step::Kind::kSource:
      return "__muster_file=$__muster_now; trap '__muster_left=$?' RETURN; source \"$__muster_file\"; trap - RETURN; ";
    case Step::Kind::kCommand:
      // The last line may end as it likes, like those before it.
      return "eval \"$__muster_now\"$'\\n:'; ";
  }
  return "";
}

}  // namespace

std::string Step::title() const {
  switch (kind) {
    case Kind::kModule:
      return "module load " + escaped(text);
    case Kind::kConda:
      return "conda activate " + escaped(text);
    case Kind::kVenv:
      return "source " + escaped(text) + "/bin/activate";
    case Kind::kSource:
      return "source " + escaped(text);
    case Kind::kCommand:
      break;
  }
  return escaped(masked_assignments(trim(text.substr(0, text.find('\n')))));
}

bool is_sourced(std::string_view first_bytes) {
  if (first_bytes.starts_with("\177ELF")) return false;
  if (!first_bytes.starts_with("#!")) return true;
  for (std::string_view word : split(trim(first_bytes.substr(2, first_bytes.find('\n') - 2)), ' ')) {
    word = word.substr(word.rfind('/') + 1);
    // Behind env come options and variables.
    if (word.empty() || word == "env" || word[0] == '-' || word.find('=') != std::string_view::npos) continue;
    constexpr std::array<std::string_view, 6> kShells = {"sh", "bash", "dash", "ash", "ksh", "zsh"};
    return std::find(kShells.begin(), kShells.end(), word) != kShells.end();
  }
  return true;
}

std::vector<Step> steps(const Setup& setup, const FileHead& head) {
  using Kind = Step::Kind;
  std::vector<Step> all;
  for (const std::string& module : setup.modules) all.push_back({Kind::kModule, module});
  if (!setup.conda.empty()) all.push_back({Kind::kConda, setup.conda});
  if (!setup.venv.empty()) all.push_back({Kind::kVenv, setup.venv});
  for (const std::string& prologue : setup.prologues) {
    auto first_bytes = head(prologue);
    if (!first_bytes) {
      all.push_back({Kind::kCommand, prologue});
      continue;
    }
    // Without a slash bash would look for either on PATH.
    const std::string path = prologue.find('/') == std::string::npos ? "./" + prologue : prologue;
    all.push_back(is_sourced(*first_bytes) ? Step{Kind::kSource, path} : Step{Kind::kCommand, shell_quote(path)});
  }
  return all;
}

std::vector<std::string> shell_command(const std::string& bash, const std::string& cat,
                                       const std::vector<Step>& steps) {
  std::string script = fmt::format("{}{}{}", kFunctions, kFinders, kBegin);
  for (size_t i = 0; i < steps.size(); ++i)
    script += fmt::format("__muster_say at {0}; __muster_now=${{__muster_text[{0}]}}; {1}", i, call(steps[i].kind));
  script += kEnd;
  return {bash, "--noprofile", "--norc", "-c", std::move(script), "prologue", cat};
}

std::string shell_input(const std::vector<Step>& steps) {
  std::string input;
  for (const Step& step : steps) input.append(step.text, 0, step.text.find('\0')).push_back('\0');
  return input;
}

}  // namespace muster::environment
