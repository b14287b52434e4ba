#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/result.h"
#include "muster/cli/options.h"

namespace muster::cli {

// kSurroundings: nobody gave it, and a scheduler or preset variables say it.
enum class Source { kDefault, kSurroundings, kEnvironment, kCommandLine };

// Where an option's value came from, and the value: one text, or a list's items. A flag that is on has the value "1".
struct Setting {
  Source source = Source::kDefault;
  std::vector<std::string> values;
};

// A command line taken apart; numbers are checked and written canonically, nothing else is judged.
class Parsed {
 public:
  const Setting& setting(Opt id) const { return settings_[static_cast<size_t>(id)]; }
  Setting& setting(Opt id) { return settings_[static_cast<size_t>(id)]; }

  bool given(Opt id) const { return setting(id).source != Source::kDefault; }
  bool flag(Opt id) const { return !setting(id).values.empty(); }
  bool has(Opt id) const { return !setting(id).values.empty(); }
  // The value, or "" when it is unset.
  const std::string& text(Opt id) const;
  const std::vector<std::string>& list(Opt id) const { return setting(id).values; }

  // An option that prints and ends (--help …) was met: nothing behind it was looked at.
  std::optional<Opt> immediate;
  // Given without a value where an allocation knows it: `--node_rank=$PBS_NODEID` with no such variable. As if not given.
  std::vector<Opt> forgiven;
  // The option that stands right before the program, and those of the launcher that stand behind it, where they are the
  // program's own arguments. For hints alone.
  std::optional<Opt> before_program;
  std::vector<Opt> behind_program;
  std::vector<std::string> words;  // program and its arguments; other verbs' words

 private:
  std::array<Setting, static_cast<size_t>(Opt::kCount)> settings_;
};

// torchrun and launch follow argparse (Python 3.11) to the letter: the two spellings of an option make a common prefix
// ambiguous, and words that belong to the script are checked for ambiguity too. The other verbs keep its rules and drop
// these two.
enum class Dialect { kMuster, kArgparse };
Dialect dialect_of(Verb verb);

// Reads `arguments` (argv without program name and verb). Usage errors are sentences of the dialect.
Result<Parsed> parse_arguments(Verb verb, const std::vector<std::string>& arguments, const GetEnv& getenv);

// A PET_ variable of a flag that is no number: argparse fails on it before it looks at anything else.
std::optional<Error> malformed_flag_variable(Verb verb, const GetEnv& getenv);

}  // namespace muster::cli
