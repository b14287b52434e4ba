#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/accelerate/settings.h"
#include "muster/base/result.h"

namespace muster::accelerate {

// What muster's own table says of an option that accelerate does not have.
enum class OwnOption : uint8_t { kUnknown, kFlag, kValue };
using LookUp = std::function<OwnOption(std::string_view name)>;  // "dry-run", dashed

// `accelerate launch …` taken apart.
struct CommandLine {
  Settings settings;
  std::vector<std::string> own;      // options of muster itself, as `muster run` reads them
  std::vector<std::string> program;  // the script and everything behind it
  bool help = false;                 // asked for; nothing behind it was looked at
  bool help_all = false;             // with every option
};

// Who wrote it.
enum class Writer : uint8_t {
  kUser,
  kLauncher,  // written by to_words(): internal options are understood
};

// By argparse's rules as accelerate uses it: dashes or underscores, no abbreviations, options before the script. A flag
// that accelerate does not know is muster's own, or an error that names the nearest one. An empty number (a variable
// that was not set: --machine_rank=$NODE) counts as not given.
Result<CommandLine> parse_command_line(const std::vector<std::string>& words, const LookUp& own_option,
                                       Writer writer = Writer::kUser);

// A command line that says the same without any config file: for agents on other machines.
std::vector<std::string> to_words(const CommandLine& line);

// "True", "yes", "1" … -> true; "off", "0" … -> false.
std::optional<bool> yes_or_no(std::string_view text);

}  // namespace muster::accelerate
