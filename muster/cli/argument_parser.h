#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/result.h"
#include "muster/cli/options.h"
#include "muster/job/request.h"

namespace muster::cli {

using job::Origin;

// The value of an option and its origin. A list has several values. A flag that is on has the value "1".
struct Setting {
  Origin source = Origin::kDefault;
  std::vector<std::string> values;
};

// A parsed command line. Numbers are checked and written canonically; nothing else is checked.
class Parsed {
 public:
  const Setting& setting(Opt id) const { return settings_[static_cast<size_t>(id)]; }
  Setting& setting(Opt id) { return settings_[static_cast<size_t>(id)]; }

  bool given(Opt id) const { return setting(id).source != Origin::kDefault; }
  bool flag(Opt id) const { return !setting(id).values.empty(); }
  bool has(Opt id) const { return !setting(id).values.empty(); }
  // The value, or "" if it is unset.
  const std::string& text(Opt id) const;
  const std::vector<std::string>& list(Opt id) const { return setting(id).values; }

  // An option that prints and exits (--help …). The parser did not read the words after it.
  std::optional<Opt> immediate;
  // Options given without a value that an allocation knows: `--node_rank=$PBS_NODEID` if there is no such variable. They
  // count as not given.
  std::vector<Opt> forgiven;
  // The option right before the program, and the launcher's options after the program, where they are arguments of the
  // program. Used only for hints.
  std::optional<Opt> before_program;
  std::vector<Opt> behind_program;
  std::vector<std::string> words;  // the program and its arguments, or the words of another verb

 private:
  std::array<Setting, static_cast<size_t>(Opt::kCount)> settings_;
};

// kArgparse, for torchrun and launch, follows argparse (Python 3.11) exactly: the two spellings of an option make a
// common prefix ambiguous, and words of the script are checked for ambiguity too. kMuster has argparse's other rules,
// without these two.
enum class Dialect { kMuster, kArgparse };
Dialect dialect_of(Verb verb);

// Reads `arguments` (argv without program name and verb). Usage errors are in the words of the dialect.
Result<Parsed> parse_arguments(Verb verb, const std::vector<std::string>& arguments, const GetEnv& getenv);

// The error for a PET_ variable of a flag that is not a number. argparse reports it before anything else.
std::optional<Error> malformed_flag_variable(Verb verb, const GetEnv& getenv);

}  // namespace muster::cli
