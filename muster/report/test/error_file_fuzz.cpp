// Error files are written by anybody: whatever is in them, and whatever the workers wrote, there is a report.
#include <fuzzer/FuzzedDataProvider.h>

#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/report/error_file.h"
#include "muster/report/report.h"

namespace muster::report {
namespace {

void check_error_file(const std::string& text) {
  auto file = parse_error_file(text);
  auto copy = error_file_with_code(text, 3);
  if (!file) {
    MUSTER_CHECK(!file.error().message.empty());
    return;
  }
  // What we write is read again and says the same.
  MUSTER_CHECK(copy.ok());
  auto again = parse_error_file(*copy);
  MUSTER_CHECK(again.ok());
  MUSTER_CHECK(again->message == file->message && again->callstack == file->callstack);
  MUSTER_CHECK(again->timestamp == file->timestamp && again->structured == file->structured);
}

TimePoint time_from(FuzzedDataProvider& data) {
  return TimePoint(std::chrono::milliseconds(data.ConsumeIntegralInRange<int64_t>(0, 1'000'000)));
}

WorkerOutcome worker_from(FuzzedDataProvider& data, int rank) {
  WorkerOutcome worker;
  worker.rank = rank;
  worker.local_rank = rank;
  worker.pid = data.ConsumeIntegral<int>();
  worker.host = data.ConsumeRandomLengthString(8);
  worker.status.signal = data.ConsumeBool() ? data.ConsumeIntegralInRange(1, 70) : 0;
  worker.status.code = worker.status.signal == 0 ? data.ConsumeIntegral<uint8_t>() : 0;
  worker.started = time_from(data);
  worker.ended = time_from(data);
  worker.ended_at = std::chrono::system_clock::time_point(std::chrono::seconds(data.ConsumeIntegral<uint32_t>()));
  worker.passed_on = worker.status.signal != 0 && data.ConsumeBool();
  if (data.ConsumeBool()) worker.stop_requested = time_from(data);
  if (data.ConsumeBool()) worker.output.first_error_time = time_from(data);
  worker.output.exception_line = data.ConsumeRandomLengthString(64);
  worker.output.tail = data.ConsumeRandomLengthString(512);
  worker.oom =
      data.PickValueInArray({process::OomVerdict::kNo, process::OomVerdict::kPossibly, process::OomVerdict::kYes});
  std::string file = data.ConsumeRandomLengthString(512);
  check_error_file(file);
  if (auto parsed = parse_error_file(file)) worker.error_file = *parsed;
  return worker;
}

void check_report(const Report& report) {
  const Verdict& verdict = report.verdict;
  MUSTER_CHECK(verdict.blames.size() == report.workers.size() && verdict.root < report.workers.size());
  auto json = nlohmann::json::parse(to_json(report));
  MUSTER_CHECK(json["workers"].size() == report.workers.size());
  MUSTER_CHECK(json["root_cause"].is_null() != verdict.has_root_cause());
  for (unsigned char c : render(report, false)) MUSTER_CHECK(c >= ' ' || c == '\n' || c == '\t');
  MUSTER_CHECK(render(report, true).ends_with('\n'));
  MUSTER_CHECK(render_torchrun(report).ends_with("=\n"));
}

}  // namespace
}  // namespace muster::report

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace muster::report;
  // What looks like a file is one; all else makes up a job that failed.
  if (size == 0 || bytes[0] == '{' || bytes[0] == '[') {
    check_error_file(std::string(reinterpret_cast<const char*>(bytes), size));
    return 0;
  }
  FuzzedDataProvider data(bytes, size);
  Report report;
  report.kind = data.PickValueInArray(
      {muster::job::Ending::kWorkerFailed, muster::job::Ending::kSignalled, muster::job::Ending::kMusterFailed});
  report.signal = data.ConsumeIntegralInRange(0, 70);
  report.entrypoint = data.ConsumeRandomLengthString(16);
  report.command = {data.ConsumeRandomLengthString(16)};
  for (int rank = 0, n = data.ConsumeIntegralInRange(1, 5); rank < n; ++rank)
    report.workers.push_back(worker_from(data, rank));
  report.verdict = judge(report.workers);
  check_report(report);
  return 0;
}
