#include <cstdlib>

#include "muster/rendezvous/handshake.h"
#include "muster/rendezvous/munge.h"

// Whoever answers may be anybody. What is taken for a credential is short, and is what was sent as one; bytes that come
// one after the other come to the same as all at once.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::rendezvous;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto answer = read_sealed_answer(bytes);
  if (!answer || !*answer) return 0;
  if ((*answer)->size() > kLongestCredential || !bytes.ends_with(**answer)) std::abort();
  for (size_t i = 0; i < size; ++i) {
    auto part = read_sealed_answer(bytes.substr(0, i));
    if (!part || *part) std::abort();
  }
  return 0;
}
