#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::accelerate {

enum class Kind : uint8_t {
  kFlag,  // takes no value
  kText,
  kInteger,  // as Python's int() reads it
  kNumber,   // as Python's float() reads it
  kBool,     // Python's bool(): any text that is not empty is True
  kYesNo,    // true, yes, 1 … are 1; false, no, 0 … are 0
  kThree,    // three of these: 1,0,0
};

enum class Group : uint8_t {
  kHardware,
  kProcesses,
  kMachines,
  kProgram,
  kOutput,
  kDynamo,
  kFp8,
  kFsdp,
  kDeepspeed,
  kMegatron,
  kParallelism,
  kElsewhere,  // TPU pods and SageMaker, which muster does not start
  kInternal,   // not for users: from the config file
};

// How a value becomes the variable of its option, if the group of the option is in use.
enum class Rule : uint8_t {
  kNone,
  kAlways,  // as Python prints it; "None" if it is unset
  kLower,   // the same in lower case
  kIfSet,   // only if it has a value
  kIfSetLower,
};

// One flag of `accelerate launch` 1.15: everything that the parser, --help, completion, the man page and the workers'
// environment know about it.
struct Option {           // NOLINT(clang-analyzer-optin.performance.Padding): in the order of the table
  std::string_view name;  // with underscores, as in accelerate's documentation; dashes are accepted
  char short_flag;        // 0: none
  Kind kind;
  const char* default_value;  // null: unset
  std::string_view choices;   // "a|b"; empty: anything
  Group group;
  std::string_view variable;
  Rule rule;
  std::string_view help;
  bool common = false;  // among the few that --help shows

  bool takes_value() const { return kind != Kind::kFlag; }
};

std::span<const Option> options();
// Finds an option, also an internal one, by its name: with dashes or underscores, without "--". Null: there is none.
const Option* find_option(std::string_view name);
const Option* find_short(char flag);

// The value of a kInteger. The number of processes may also be a number of GPUs as Slurm writes it: "v100:4".
std::optional<int64_t> parse_integer(const Option& option, std::string_view text);

// The flag that an unknown name probably means: "--num_processes" for "num_proceses" and for "nproc_per_node". Empty:
// no flag resembles it.
std::string nearest_flag(std::string_view name);

std::string_view group_title(Group group);
std::span<const Group> shown_groups();

}  // namespace muster::accelerate
