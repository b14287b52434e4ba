#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/accelerate/settings.h"
#include "muster/base/environment.h"
#include "muster/base/result.h"

namespace muster::accelerate {

struct Entry;

// A value of a config file, as Python reads it.
struct Value {
  enum class Kind : uint8_t { kNone, kBool, kNumber, kText, kList, kMap };
  Kind kind = Kind::kNone;
  std::string text;            // as Python's str() shows it: "True", "2", "0.5", "['a', 'b']"
  std::vector<Value> items;    // of a list
  std::vector<Entry> entries;  // of a map, in the file's order
};
struct Entry {
  std::string name;
  Value value;
};

// The largest file that is accepted. `accelerate config` writes about two kilobytes.
inline constexpr size_t kMostConfigBytes = 256 << 10;

// $HF_HOME/accelerate/default_config.yaml, else below $XDG_CACHE_HOME/huggingface, else below ~/.cache/huggingface.
std::string default_config_file(const GetEnv& getenv);

// Reads YAML 1.1 by PyYAML's rules (a plain yes is True, 1e3 is a text), or JSON if `name` ends in .json. The result is
// a map. Never throws. `name` is also for messages.
Result<Value> parse_config(std::string_view text, const std::string& name);

// Adds the settings of the file that the command line does not give, by accelerate's rules. Differences: rdzv_backend
// and enable_cpu_affinity count, a plain NO is a valid distributed_type and mixed_precision, and gpu_ids may be a
// number. Remarks for the user are added to `notes`.
Result<void> apply_config(const Value& config, const std::string& name, Settings& settings,
                          std::vector<std::string>& notes);

}  // namespace muster::accelerate
