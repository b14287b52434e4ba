// The report as JSON (--report FILE). docs/guide/failures.md has the schema, from which no name is ever taken away.
#include <nlohmann/json.hpp>

#include "muster/base/printable.h"
#include "muster/process/signals.h"
#include "muster/report/report.h"
#include "muster/report/words.h"

namespace muster::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kTailLines = 50;

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json how(const WorkerOutcome& worker, Blame blame) {
  bool signalled = worker.status.signal != 0;
  return {{"exit_code", signalled ? Json() : Json(worker.status.code)},
          {"signal", signalled ? Json(worker.status.signal) : Json()},
          {"name", signalled ? Json(process::signal_name(worker.status.signal)) : Json()},
          {"text", fate_of(worker, blame)}};
}

std::string_view oom_name(process::OomVerdict oom) {
  switch (oom) {
    case process::OomVerdict::kNo:
      return "no";
    case process::OomVerdict::kPossibly:
      return "possibly";
    case process::OomVerdict::kYes:
      return "yes";
  }
  return "no";
}

Json error_file(const WorkerOutcome& worker) {
  if (!worker.error_file) return {};
  const ErrorFile& file = *worker.error_file;
  return {{"path", text_or_null(worker.error_file_path)},
          {"message", file.message},
          {"callstack", text_or_null(file.callstack)},
          {"timestamp", file.timestamp ? Json(*file.timestamp) : Json()}};
}

Json worker_json(const WorkerOutcome& worker, Blame blame) {
  bool to_blame = blame != Blame::kNone && blame != Blame::kStopped && blame != Blame::kPassedOn;
  auto tail = to_blame ? last_lines(worker.output.tail, kTailLines) : std::vector<std::string>();
  return {{"rank", worker.rank},
          {"local_rank", worker.local_rank},
          {"host", worker.host},
          {"pid", worker.pid},
          {"blame", blame_name(blame)},
          {"how", how(worker, blame)},
          {"oom", oom_name(worker.oom)},
          {"seconds", std::chrono::duration<double>(worker.ended - worker.started).count()},
          {"ended", std::chrono::duration<double>(worker.ended_at.time_since_epoch()).count()},
          {"exception", text_or_null(to_blame ? exception_of(worker) : "")},
          {"stderr_tail", tail},
          {"stdout_log", text_or_null(worker.stdout_log)},
          {"stderr_log", text_or_null(worker.stderr_log)},
          {"error_file", error_file(worker)}};
}

std::string message_of(const Report& report, bool has_root) {
  if (has_root) {
    const WorkerOutcome& root = report.workers[report.verdict.root];
    if (root.passed_on) return fmt::format("{} failed: {}", report.entrypoint, passed_on_text(report));
    return fmt::format("{} failed: rank {} on {}: {}", report.entrypoint, root.rank, root.host, how_it_ended(root));
  }
  if (!report.message.empty()) return report.message;
  if (report.signal != 0) return fmt::format("muster received {}", process::signal_name(report.signal));
  return report.verdict.reason;
}

}  // namespace

std::string to_json(const Report& report) {
  bool judged = report.workers.size() == report.verdict.blames.size();
  bool has_root = judged && report.verdict.has_root_cause();
  Json workers = Json::array();
  for (size_t i = 0; judged && i < report.workers.size(); ++i)
    workers.push_back(worker_json(report.workers[i], report.verdict.blames[i]));
  Json json = {{"kind", job::ending_name(report.kind)},
               {"exit_code", report.exit_code},
               {"message", message_of(report, has_root)},
               {"entrypoint", report.entrypoint},
               {"command", report.command},
               {"run_id", report.run_id},
               {"round", report.round},
               {"restarts", report.restarts},
               {"max_restarts", report.max_restarts},
               {"signal", report.signal != 0 ? Json(process::signal_name(report.signal)) : Json()},
               {"reason", text_or_null(report.verdict.reason)},
               {"doubt", has_root ? text_or_null(report.verdict.doubt) : Json()},
               {"note", text_or_null(report.note)},
               {"lost_nodes", report.lost_nodes},
               {"root_cause", has_root ? workers[report.verdict.root] : Json()},
               {"workers", workers}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace muster::report
