#include "muster/store/test/codec_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::store;
  fuzz_codec(Dialect::kUnknown, std::string_view("\0\xCE\xF7\x85\x3C", 5), data, size);
  return 0;
}
