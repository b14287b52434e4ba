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
  kBool,     // Python's bool(): whatever is not empty is True
  kYesNo,    // true, yes, 1 … are 1; false, no, 0 … are 0
  kThree,    // three of them: 1,0,0
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
  kInternal,   // on nobody's command line: from the config file, or from a launcher to its agents
};

// How a value becomes the variable of its option, where the group of the option is in use.
enum class Rule : uint8_t {
  kNone,
  kAlways,  // as Python prints it; "None" where it is unset
  kLower,   // the same in small letters
  kIfSet,   // only where it has a value
  kIfSetLower,
};

// One flag of `accelerate launch` 1.15: all that the parser, --help, completion, the man page and the workers'
// environment know about it.
struct Option {           // NOLINT(clang-analyzer-optin.performance.Padding): in the order of the table
  std::string_view name;  // underscored, as accelerate's documentation has it; dashes are accepted
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
// By its name, with dashes or underscores, without "--"; null: there is none. Internal ones are found too.
const Option* find_option(std::string_view name);
const Option* find_short(char flag);

// What the text says for a kInteger; the number of processes may also be one of GPUs as Slurm writes it: "v100:4".
std::optional<int64_t> parse_integer(const Option& option, std::string_view text);

// What a flag that accelerate does not have most likely means: "--num_processes" for "num_proceses" and for
// "nproc_per_node"; empty: nothing near.
std::string nearest_flag(std::string_view name);

std::string_view group_title(Group group);
std::span<const Group> shown_groups();

}  // namespace muster::accelerate
