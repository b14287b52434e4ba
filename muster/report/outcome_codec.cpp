#include "muster/report/outcome_codec.h"

#include "muster/base/bytes.h"

namespace muster::report {
namespace {

using SystemTime = std::chrono::system_clock::time_point;

// Times are subtracted from each other: none may be so far from the others that the difference overflows.
constexpr int64_t kFarthest = int64_t{1} << 61;  // nanoseconds

// Of an error file, in seconds.
bool is_possible(int64_t timestamp) { return timestamp >= 0 && timestamp < kFarthest / 1'000'000'000; }

void put_time(ByteWriter& out, TimePoint time) { out.i64(time.time_since_epoch().count()); }

void put_time(ByteWriter& out, const std::optional<TimePoint>& time) {
  out.boolean(time.has_value());
  if (time) put_time(out, *time);
}

int64_t checked(ByteReader& in, int64_t nanoseconds) {
  if (nanoseconds <= -kFarthest || nanoseconds >= kFarthest) in.fail();
  return in.ok() ? nanoseconds : 0;
}

// Unsigned, since the difference of two clocks that somebody made up may overflow.
TimePoint get_time(ByteReader& in, Duration offset) {
  const uint64_t ours = in.u64() - static_cast<uint64_t>(offset.count());
  return TimePoint(Duration(checked(in, static_cast<int64_t>(ours))));
}

std::optional<TimePoint> get_optional_time(ByteReader& in, Duration offset) {
  if (!in.boolean()) return std::nullopt;
  return get_time(in, offset);
}

void put(ByteWriter& out, const WorkerOutcome& worker) {
  out.u32(static_cast<uint32_t>(worker.rank));
  out.u32(static_cast<uint32_t>(worker.local_rank));
  out.u32(static_cast<uint32_t>(worker.pid));
  out.text(worker.host);
  out.u32(static_cast<uint32_t>(worker.status.code));
  out.u32(static_cast<uint32_t>(worker.status.signal));
  put_time(out, worker.started);
  put_time(out, worker.ended);
  out.i64(worker.ended_at.time_since_epoch().count());
  put_time(out, worker.stop_requested);
  out.text(worker.output.tail);
  put_time(out, worker.output.first_error_time);
  out.text(worker.output.exception_line);
  out.text(worker.stdout_log);
  out.text(worker.stderr_log);
  out.boolean(worker.error_file.has_value());
  if (worker.error_file) {
    out.text(worker.error_file->message);
    out.text(worker.error_file->callstack);
    // A worker may have written anything: a time that cannot be is none.
    const bool has_time = worker.error_file->timestamp && is_possible(*worker.error_file->timestamp);
    out.boolean(has_time);
    if (has_time) out.i64(*worker.error_file->timestamp);
    out.boolean(worker.error_file->structured);
  }
  out.text(worker.error_file_path);
  out.u8(static_cast<uint8_t>(worker.oom));
  out.boolean(worker.passed_on);
}

ErrorFile get_error_file(ByteReader& in) {
  ErrorFile file;
  file.message = in.text();
  file.callstack = in.text();
  if (in.boolean()) {
    file.timestamp = in.i64();
    if (!is_possible(*file.timestamp)) in.fail();
  }
  file.structured = in.boolean();
  return file;
}

WorkerOutcome get(ByteReader& in, Duration offset) {
  WorkerOutcome worker;
  worker.rank = static_cast<int>(in.u32());
  worker.local_rank = static_cast<int>(in.u32());
  worker.pid = static_cast<int>(in.u32());
  worker.host = in.text();
  worker.status.code = static_cast<int>(in.u32());
  worker.status.signal = static_cast<int>(in.u32());
  worker.started = get_time(in, offset);
  worker.ended = get_time(in, offset);
  worker.ended_at = SystemTime(SystemTime::duration(checked(in, in.i64())));
  worker.stop_requested = get_optional_time(in, offset);
  worker.output.tail = in.text();
  worker.output.first_error_time = get_optional_time(in, offset);
  worker.output.exception_line = in.text();
  worker.stdout_log = in.text();
  worker.stderr_log = in.text();
  if (in.boolean()) worker.error_file = get_error_file(in);
  worker.error_file_path = in.text();
  const uint8_t oom = in.u8();
  if (oom > static_cast<uint8_t>(process::OomVerdict::kYes)) in.fail();
  worker.oom = static_cast<process::OomVerdict>(oom);
  worker.passed_on = in.boolean();
  if (worker.passed_on && worker.status.signal == 0) in.fail();
  if (worker.rank < 0 || worker.local_rank < 0 || worker.status.signal < 0 || worker.status.signal > 64) in.fail();
  return worker;
}

}  // namespace

std::string encode_outcomes(const std::vector<WorkerOutcome>& outcomes) {
  ByteWriter out;
  out.u32(static_cast<uint32_t>(outcomes.size()));
  for (const WorkerOutcome& outcome : outcomes) put(out, outcome);
  return std::move(out).take();
}

Result<std::vector<WorkerOutcome>> decode_outcomes(std::string_view bytes, Duration offset) {
  ByteReader in(bytes);
  const size_t count = in.count(1);
  std::vector<WorkerOutcome> outcomes;
  for (size_t i = 0; i < count && in.ok(); ++i) outcomes.push_back(get(in, offset));
  if (!in.done()) return Error{ErrorKind::kPeer, "its report of how the workers ended cannot be read", {}};
  return outcomes;
}

}  // namespace muster::report
