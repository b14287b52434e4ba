#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "muster/accelerate/options.h"

namespace muster::accelerate {

// As Python's str() shows a float: "1.0", "0.5", "1e-08", "nan".
std::string python_number(double value);

enum class Source : uint8_t { kDefault, kFile, kCommandLine };

// The value of every option, from whichever source, as Python's str() would show it: "True", "1", "0.5". Names are the
// table's; one that is not there is a mistake in the program.
class Settings {
 public:
  // Nothing when it is unset.
  std::optional<std::string> get(std::string_view name) const;
  bool flag(std::string_view name) const { return get(name) == "True"; }
  // Of a kInteger that has a value.
  std::optional<int64_t> integer(std::string_view name) const;
  Source source(std::string_view name) const;
  bool given(std::string_view name) const { return source(name) == Source::kCommandLine; }

  // A value of nothing is Python's None.
  void set(std::string_view name, std::optional<std::string> value, Source source);

 private:
  struct Setting {
    std::optional<std::string> value;
    Source source = Source::kDefault;
  };
  std::map<std::string, Setting, std::less<>> settings_;
};

}  // namespace muster::accelerate
