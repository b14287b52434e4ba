#include <cstdint>
#include <string_view>

#include "muster/base/error.h"
#include "muster/cli/values.h"

// --nnodes, --nproc-per-node and the numbers under them: what is accepted is in range.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  using namespace muster::cli;
  if (auto nodes = parse_nodes(text)) MUSTER_CHECK(0 < nodes->min && nodes->min <= nodes->max);
  if (auto count = parse_worker_count(text)) MUSTER_CHECK(count->number > 0);
  if (auto number = python_int(text)) MUSTER_CHECK(python_int(*number) == number);
  (void)python_float(text);
  (void)parse_size(text);
  return 0;
}
