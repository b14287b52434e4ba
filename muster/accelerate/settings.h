#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "muster/accelerate/options.h"
#include "muster/base/result.h"
#include "muster/job/request.h"

namespace muster::accelerate {

// As Python's str() shows a float: "1.0", "0.5", "1e-08", "nan".
std::string python_number(double value);

enum class Source : uint8_t { kDefault, kFile, kCommandLine };

// The value of every option as Python's str() shows it: "True", "1", "0.5". Names are those of the table; any other
// name is a bug in muster.
class Settings {
 public:
  // Nothing if it is unset.
  std::optional<std::string> get(std::string_view name) const;
  bool flag(std::string_view name) const { return get(name) == "True"; }
  // The value of a kInteger, if it has one.
  std::optional<int64_t> integer(std::string_view name) const;
  Source source(std::string_view name) const;
  bool given(std::string_view name) const { return source(name) == Source::kCommandLine; }

  // The settings that differ from the defaults, for the nodes of a job, which read no config file.
  job::Assignments all() const;
  static Result<Settings> of(const job::Assignments& all);

  // No value means Python's None.
  void set(std::string_view name, std::optional<std::string> value, Source source);

 private:
  struct Setting {
    std::optional<std::string> value;
    Source source = Source::kDefault;
  };
  std::map<std::string, Setting, std::less<>> settings_;
};

}  // namespace muster::accelerate
