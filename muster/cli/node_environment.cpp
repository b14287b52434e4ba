#include "muster/cli/node_environment.h"

#include <algorithm>
#include <array>
#include <string>

namespace muster::cli {
namespace {

bool belongs_to_the_node(std::string_view name) {
  constexpr std::array<std::string_view, 12> kNames = {
      "HOSTNAME",        "HOME",           "USER",    "LOGNAME",  "MAIL",      "TMPDIR",
      "XDG_RUNTIME_DIR", "XDG_SESSION_ID", "DISPLAY", "WINDOWID", "LS_COLORS", "XAUTHORITY"};
  return name.starts_with("SSH_") || name.starts_with("DBUS_") ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace

process::Environment without_token(process::Environment environment) {
  std::erase_if(environment, [](const auto& variable) { return variable.first == kTokenVariable; });
  return environment;
}

process::Environment environment_to_send(const process::Environment& launcher) {
  process::Environment sent = without_token(launcher);
  std::erase_if(sent, [](const auto& variable) { return belongs_to_the_node(variable.first); });
  return sent;
}

process::Environment environment_of_node(const process::Environment& sent, const process::Environment& own) {
  process::Environment all = without_token(sent);
  for (const auto& variable : own) {
    auto same = [&](const auto& other) { return other.first == variable.first; };
    if (belongs_to_the_node(variable.first) && std::none_of(sent.begin(), sent.end(), same)) all.push_back(variable);
  }
  return all;
}

}  // namespace muster::cli
