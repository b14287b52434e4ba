// Descriptions: whatever is understood says the same when it is written and read again. Greetings: the same however
// they are cut.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "muster/cluster/description.h"

using namespace muster::cluster;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (auto read = decode_description(bytes)) {
    auto again = decode_description(encode(*read));
    if (!again.ok() || !(*again == *read)) abort();
  }
  GreetingReader whole, pieces;
  whole.add(bytes);
  for (char c : bytes) pieces.add({&c, 1});
  if (whole.state() != pieces.state() && whole.state() != GreetingReader::State::kNone) abort();
  return 0;
}
