// What a node tells of its workers may be anything: it is refused, or can be judged, shown and sent on unchanged.
#include <cstdint>
#include <cstdlib>

#include "muster/report/outcome_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::report;
  auto outcomes = decode_outcomes({reinterpret_cast<const char*>(data), size}, muster::Duration(0));
  if (!outcomes) return 0;
  if (encode_outcomes(*outcomes) != std::string(reinterpret_cast<const char*>(data), size)) std::abort();
  Report report;
  report.workers = *std::move(outcomes);
  report.verdict = judge(report.workers);
  (void)to_json(report);
  (void)render(report, true);
  return 0;
}
