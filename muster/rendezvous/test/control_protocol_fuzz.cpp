#include <cstdlib>

#include "muster/rendezvous/protocol.h"

// Whatever is accepted is written again as it was: there is one way to say a thing, and no field is misread.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::rendezvous;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto message = decode(bytes);
  if (message && encode(*message) != bytes) std::abort();
  return 0;
}
