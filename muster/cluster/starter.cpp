#include "muster/cluster/starter.h"

#include <fmt/format.h>

#include "muster/base/strings.h"

namespace muster::cluster {
namespace {

constexpr int kUsage = 2, kNotExecutable = 126, kNotFound = 127;
constexpr std::string_view kErrorPrefix = "muster: error: ";

}  // namespace

std::vector<std::string> fetch_command(const std::string& program, const Fetch& fetch, const std::string& name) {
  std::string endpoints = join(fetch.endpoints, ",");
  std::erase_if(endpoints, [](char c) { return c == '[' || c == ']'; });
  std::vector<std::string> words = {program,   "agent",     "--fetch", endpoints,
                                    "--nonce", fetch.nonce, "--by",    fetch.munge ? "munge" : "key"};
  if (!name.empty()) words.insert(words.end(), {"--name", name});
  return words;
}

bool is_last_word(std::string_view line) { return line.starts_with(kErrorPrefix); }

Error agent_ended(const process::ExitStatus& status, std::string_view last_line) {
  Error error{ErrorKind::kPeer, fmt::format("the agent ended: {}", status.text()), {}};
  if (status.signal == 0 && status.code == kNotFound) error.kind = ErrorKind::kNotFound;
  if (status.signal == 0 && status.code == kNotExecutable) error.kind = ErrorKind::kNotExecutable;
  if (status.signal == 0 && is_last_word(last_line)) {
    error.message = last_line.substr(kErrorPrefix.size());
    if (status.code == kUsage) error.kind = ErrorKind::kUsage;
  } else if (!last_line.empty()) {
    error.message += fmt::format(" ({})", last_line);
  }
  return error;
}

}  // namespace muster::cluster
