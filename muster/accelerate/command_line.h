#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/accelerate/settings.h"
#include "muster/base/result.h"

namespace muster::accelerate {

// What muster's own table says about an option that accelerate does not have.
enum class OwnOption : uint8_t { kUnknown, kFlag, kValue };
using LookUp = std::function<OwnOption(std::string_view name)>;  // "dry-run", with dashes

// A parsed command line of `accelerate launch`.
struct CommandLine {
  Settings settings;
  std::vector<std::string> own;      // options of muster itself, as `muster run` reads them
  std::vector<std::string> program;  // the script and everything after it
  bool help = false;                 // asked for; the words after it were not read
  bool help_all = false;             // with every option
};

// Follows argparse's rules as accelerate uses it: dashes or underscores, no abbreviations, options before the script. A
// flag that accelerate does not have is muster's own, or an error that names the nearest flag. An empty number (from a
// variable that is not set: --machine_rank=$NODE) counts as not given.
Result<CommandLine> parse_command_line(const std::vector<std::string>& words, const LookUp& own_option);

// "True", "yes", "1" … -> true; "off", "0" … -> false.
std::optional<bool> yes_or_no(std::string_view text);

}  // namespace muster::accelerate
