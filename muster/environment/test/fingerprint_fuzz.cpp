// What a node says of itself: whatever was understood says the same again, and a comparison shows it without a control
// character.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "muster/environment/difference.h"

using namespace muster::environment;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto node = decode_fingerprint({reinterpret_cast<const char*>(data), size});
  if (!node) return 0;
  auto again = decode_fingerprint(encode(*node));
  if (!again || *again != *node) abort();
  const std::vector<Fingerprint> nodes = {*node, {.host = "other", .versions = {}, .variables = {}}};
  const auto found = differences(nodes, {});
  for (const std::string& text : {differences_text(nodes, found), differences_json(nodes, found)})
    if (std::any_of(text.begin(), text.end(), [](char c) { return c >= 0 && c < ' ' && c != '\n' && c != '\t'; }))
      abort();
  return 0;
}
