#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "muster/base/environment.h"
#include "muster/base/fd.h"
#include "muster/base/strings.h"
#include "muster/base/usage_error.h"
#include "muster/base/version.h"
#include "muster/cli/commands.h"
#include "muster/cli/completion.h"
#include "muster/cli/env_diff.h"
#include "muster/cli/help.h"
#include "muster/cli/job_record.h"
#include "muster/cli/man_page.h"
#include "muster/cli/suggestions.h"
#include "muster/cli/verbs.h"

namespace muster::cli {
namespace {

// The error for a first word that is not a verb.
Error unknown_verb(const std::string& word, std::string_view command = "muster") {
  Error error = usage_error("unknown verb '{}'", word);
  const bool program = ::access(word.c_str(), F_OK) == 0 || word.ends_with(".py");
  if (edit_distance(word, "--version") < 3 || edit_distance(word, "--help") < 3) {
    error = usage_error("unknown option '{}'", word);
    error.hint = fmt::format("did you mean '{}'?", edit_distance(word, "--help") < 3 ? "--help" : "--version");
  } else if (word[0] == '-') {
    error = {ErrorKind::kUsage, fmt::format("option '{}' comes before the verb", word),
             fmt::format("write muster run {} …", word)};
  } else if (find_verb(word.substr(0, word.find(' '))) != nullptr) {
    error.hint = fmt::format(
        "it is several words in one argument; as the first line of a script write #!/usr/bin/env -S muster {}", word);
  } else if (program) {
    error.hint = fmt::format("to run it write muster run {}", word);
  } else {
    error.hint = hint_for_verb(word, command);
  }
  return error;
}

int help_command(const Parsed& parsed) {
  const TextStyle style = style_of(STDOUT_FILENO);
  if (parsed.words.empty()) return print(general_help(style));
  const VerbInfo* verb = find_verb(parsed.words[0]);
  if (verb == nullptr) return fail(unknown_verb(parsed.words[0], "muster help"));
  return print(verb_help(verb->verb, fmt::format("muster {}", verb->name), Detail::kCommon, style));
}

int small_command(const VerbInfo& verb, const std::vector<std::string>& arguments) {
  auto parsed = parse_arguments(verb.verb, arguments, environment_variable);
  if (!parsed) return fail(parsed.error());
  if (auto help = asks_for_help(parsed->immediate))
    return print(verb_help(verb.verb, fmt::format("muster {}", verb.name), *help, style_of(STDOUT_FILENO)));
  switch (verb.verb) {
    case Verb::kStore:
      return store_command(*parsed);
    case Verb::kEnv:
      return env_command(*parsed);
    case Verb::kCompletion:
      return print(completion_script(*parse_shell(parsed->words[0])));
    case Verb::kMan:
      return print(man_page());
    case Verb::kVersion:
      return version_command(*parsed);
    case Verb::kHelp:
      return help_command(*parsed);
    case Verb::kStatus:
      return status_command(*parsed);
    case Verb::kAgent:
      break;
    case Verb::kWhere:
      return where_command(*parsed);
    case Verb::kRun:
    case Verb::kTorchrun:
    case Verb::kLaunch:
    case Verb::kAccelerate:
      break;
  }
  return 2;
}

int dispatch(const std::vector<std::string>& words) {
  const std::string name = words[0].substr(words[0].rfind('/') + 1);
  if (name == "torchrun") return run_command(Verb::kTorchrun, name, {words.begin() + 1, words.end()});
  if (name == "accelerate-launch") return accelerate_launch_command({words.begin() + 1, words.end()});
  if (words.size() < 2) return fail({ErrorKind::kUsage, "the verb is missing", "muster --help lists the verbs"});
  const std::string& word = words[1];
  if (word == "--help" || word == "-h") return print(general_help(style_of(STDOUT_FILENO)));
  if (word == "--version" || word == "-V") return print(fmt::format("muster {}\n", version()));
  const std::vector<std::string> rest(words.begin() + 2, words.end());
  if (word == kFingerprintWord) return fingerprint_command();
  if (word == kRecordWord) return record_command();
  const VerbInfo* verb = find_verb(word);
  if (verb == nullptr) return fail(unknown_verb(word));
  switch (verb->verb) {
    case Verb::kRun:
      return run_command(Verb::kRun, "muster run", rest);
    case Verb::kTorchrun:
      return run_command(Verb::kTorchrun, "muster torchrun", rest);
    case Verb::kLaunch:
      return run_command(Verb::kLaunch, "muster launch", rest);
    case Verb::kAccelerate:
      return accelerate_command(rest);
    case Verb::kAgent:
      if (!rest.empty() && (rest[0] == "--help" || rest[0] == "-h")) return small_command(*verb, rest);
      return agent_command(rest);
    default:
      return small_command(*verb, rest);
  }
}

}  // namespace

int fail(const Error& error) {
  const std::string text = fmt::format("muster: error: {}\n", error.text());
  (void)write_all(STDERR_FILENO, text.data(), text.size());
  return exit_code(error);
}

int print(const std::string& text) {
  if (write_all(STDOUT_FILENO, text.data(), text.size())) return 0;
  fail(system_error(errno, "cannot write to stdout"));
  return kMusterFailed;
}

}  // namespace muster::cli

int main(int argc, char** argv) {
  // A file that reaches RLIMIT_FSIZE is treated as a full disk (EFBIG). Workers get the default back.
  ::signal(SIGXFSZ, SIG_IGN);
  return muster::cli::dispatch({argv, argv + argc});
}
