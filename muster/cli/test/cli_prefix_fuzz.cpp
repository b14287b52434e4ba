#include <cstdint>
#include <string_view>

#include "muster/base/error.h"
#include "muster/cli/values.h"

// --log-line-prefix-template: a text without a dollar sign is always a template.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  using namespace muster::cli;
  auto ok = check_prefix_template(text);
  MUSTER_CHECK(ok || text.find('$') != std::string_view::npos);
  return 0;
}
