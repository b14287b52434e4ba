#include "muster/store/test/codec_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::store;
  fuzz_codec(Dialect::kTorch21, {}, data, size);
  return 0;
}
