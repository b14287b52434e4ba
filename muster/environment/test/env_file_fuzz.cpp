// Files of variables: what is understood can be set, errors are the user's and name a line that is there.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "muster/environment/assignments.h"

using namespace muster::environment;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto all = parse_env_file(text);
  if (!all) {
    if (all.error().kind != muster::ErrorKind::kUsage || !all.error().message.starts_with("line ")) abort();
    const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
    if (std::atol(all.error().message.c_str() + 5) > lines) abort();
    return 0;
  }
  for (const auto& [name, value] : *all) {
    if (name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos) abort();
    if (value && value->find('\0') != std::string::npos) abort();
  }
  return 0;
}
