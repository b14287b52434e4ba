#include <cstdint>
#include <string_view>

#include "muster/base/error.h"
#include "muster/job/request.h"

// What is read as a request is written as one that says the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::job;
  auto request = decode_request({reinterpret_cast<const char*>(data), size});
  if (!request) return 0;
  auto again = decode_request(encode(*request));
  MUSTER_CHECK(again && *again == *request);
  return 0;
}
