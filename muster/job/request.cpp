#include "muster/job/request.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/strings.h"

namespace muster::job {

std::string Source::option() const { return fmt::format("--{}", option_name); }

Error Source::about(const Error& error) const {
  std::string name = option();
  if (origin == Origin::kVariable) {
    name = fmt::format("PET_{}", upper_case(option_name));
    std::replace(name.begin(), name.end(), '-', '_');
  }
  return {error.kind, fmt::format("{}: {}", name, error.message), error.hint, error.signal};
}

std::string NodeRange::text() const { return is_range ? fmt::format("{}:{}", min, max) : std::to_string(max); }

std::string WorkerCount::text() const {
  switch (what) {
    case Countable::kCpu:
      return "cpu";
    case Countable::kGpu:
      return "gpu";
    case Countable::kXpu:
      return "xpu";
    case Countable::kAuto:
      return "auto";
    case Countable::kNumber:
      break;
  }
  return std::to_string(number);
}

Error out_of_range(std::string_view value, int64_t min, int64_t max) {
  return {ErrorKind::kUsage, fmt::format("{} is out of range", value),
          max == min        ? fmt::format("only {} is possible here", min)
          : max < INT32_MAX ? fmt::format("write {} to {}", min, max)
                            : fmt::format("write {} or more", min)};
}

}  // namespace muster::job
