#include "muster/cluster/starter.h"

#include <fmt/format.h>

namespace muster::cluster {
namespace {

constexpr int kNotExecutable = 126, kNotFound = 127;
constexpr std::string_view kErrorPrefix = "muster: error: ";

}  // namespace

Error agent_ended(const process::ExitStatus& status, std::string_view last_line) {
  Error error{ErrorKind::kPeer, fmt::format("the agent ended: {}", status.text()), {}};
  if (status.signal == 0 && status.code == kNotFound) error.kind = ErrorKind::kNotFound;
  if (status.signal == 0 && status.code == kNotExecutable) error.kind = ErrorKind::kNotExecutable;
  if (status.signal == 0 && last_line.starts_with(kErrorPrefix)) {
    error.message = last_line.substr(kErrorPrefix.size());
  } else if (!last_line.empty()) {
    error.message += fmt::format(" ({})", last_line);
  }
  return error;
}

}  // namespace muster::cluster
