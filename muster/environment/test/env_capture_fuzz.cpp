// What a shell reports: every variable has a name that can be set, and what is settled keeps nothing of the shell's.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "muster/environment/captured.h"
#include "muster/environment/set_up_failure.h"

using namespace muster::environment;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Captured captured = parse_captured(bytes);
  const std::vector<Step> steps = {
      {Step::Kind::kModule, "gcc"}, {Step::Kind::kCommand, "a\nb"}, {Step::Kind::kSource, "./x"}};
  auto line_of = [](const std::string&, int) { return std::string(); };
  if (explain_failure(steps, captured, {.code = 1}, line_of).message.empty()) abort();
  if (!captured.environment) return 0;
  for (const auto& [name, value] : *captured.environment)
    if (name.empty() || name.find('=') != std::string::npos || (name + value).find('\0') != std::string::npos) abort();
  for (const auto& [name, value] : settle(*captured.environment, {}))
    if (name == "SHLVL" || name.starts_with("__muster_")) abort();
  return 0;
}
