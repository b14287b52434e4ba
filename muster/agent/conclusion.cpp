#include "muster/agent/conclusion.h"

#include "muster/base/detached_thread.h"
#include "muster/base/environment.h"
#include "muster/process/signals.h"
#include "muster/rendezvous/protocol.h"
#include "muster/report/error_file.h"
#include "muster/report/publication.h"
#include "muster/report/stop_cause.h"

namespace muster::agent {
namespace {

constexpr int kTorchrunFailed = 1;
constexpr int kSignalBase = 128;
constexpr auto kCopyTime = std::chrono::seconds(2);  // for the file systems of two error files

Result<void> copy_with_code(const std::string& from, const std::string& to, int code) {
  MUSTER_TRY(std::string text, read_regular_file(from));
  MUSTER_TRY(std::string copy, report::error_file_with_code(text, code));
  return write_whole_file(to, copy);
}

}  // namespace

Conclusion::Conclusion(const job::JobSpec& job, output::Console& console, report::Events* events,
                       const output::LogLayout* layout, Count count)
    : job_(job),
      console_(console),
      events_(events),
      layout_(layout),
      count_(count),
      torchrun_(job.flavor != job::Flavor::kMuster) {}

int Conclusion::succeeded(const Crew& crew) {
  record_ends(crew, "");
  layout_->remove_if_temporary(false);
  return 0;
}

int Conclusion::failed(const Crew& crew, std::vector<report::WorkerOutcome> outcomes, report::Verdict verdict) {
  const report::WorkerOutcome& root = outcomes[verdict.root];
  int code = torchrun_ ? kTorchrunFailed : report::job_exit_code(root);
  record_ends(crew, fmt::format("rank {} failed: {}", root.rank, root.status.text()));
  copy_error_file(root);
  layout_->remove_if_temporary(true);
  publish(report(job::Ending::kWorkerFailed, code, std::move(outcomes), std::move(verdict)));
  return code;
}

int Conclusion::signalled(int signal, int launcher_pid, std::vector<report::WorkerOutcome> outcomes) {
  int code = torchrun_ ? kTorchrunFailed : kSignalBase + signal;
  events_->agent_ended(fmt::format("received {}", process::signal_name(signal)), count_.restarts);
  layout_->remove_if_temporary(true);
  report::Verdict verdict = report::judge(outcomes);
  report::Report result = report(job::Ending::kSignalled, code, std::move(outcomes), std::move(verdict));
  result.signal = signal;
  result.note = report::scheduler_cause(signal, own_environment());
  publish(result);
  if (torchrun_) {
    constexpr std::string_view kException = "torch.distributed.elastic.multiprocessing.api.SignalException";
    console_.write(job::Stream::kStderr,
                   fmt::format("{}: Process {} got signal: {}\n", kException, launcher_pid, signal));
  }
  return code;
}

int Conclusion::not_started(const Error& error) {
  int code = torchrun_ ? kTorchrunFailed : exit_code(error);
  // The code of a usage error says that nothing was started, which would be wrong later on.
  if (!torchrun_ && error.kind == ErrorKind::kUsage && count_.round > 0) code = kMusterFailed;
  if (events_ != nullptr) events_->agent_ended(error.text(), count_.restarts);
  if (layout_ != nullptr) layout_->remove_if_temporary(false);
  report::Report result = report(job::Ending::kMusterFailed, code, {}, {});
  result.message = error.text();
  report::write_report_file(job_, console_, result);
  console_.log().error("{}", error.text());
  return code;
}

int Conclusion::member_ended(const Crew* crew, const rendezvous::EndJob& end) {
  record_member(crew, end.exit_code == 0 ? "" : end.reason);
  const bool bright = report::wants_colour(job_) && !torchrun_;
  if (!end.text.empty())
    console_.write(job::Stream::kStderr, bright ? report::with_bright_headline(end.text) : end.text);
  return torchrun_ && end.exit_code != 0 ? kTorchrunFailed : end.exit_code;
}

int Conclusion::member_failed(const Crew* crew, const Error& error) {
  record_member(crew, error.text());
  console_.log().error("{}", error.text());
  return torchrun_ ? kTorchrunFailed : kMusterFailed;
}

void Conclusion::record_member(const Crew* crew, const std::string& failure) {
  if (crew != nullptr) record_ends(*crew, failure);
  layout_->remove_if_temporary(!failure.empty());
}

report::Report Conclusion::report(job::Ending kind, int exit_code, std::vector<report::WorkerOutcome> outcomes,
                                  report::Verdict verdict) const {
  report::Report report = report::make_report(job_, kind, exit_code, std::move(outcomes), std::move(verdict));
  report.round = count_.round;
  report.restarts = count_.restarts;
  return report;
}

void Conclusion::publish(const report::Report& report) {
  report::write_report_file(job_, console_, report);
  console_.write(job::Stream::kStderr, report::report_text(job_, report, report::wants_colour(job_)));
}

// Whoever started us as torch starts a worker reads our error file as we read our workers'.
void Conclusion::copy_error_file(const report::WorkerOutcome& root) {
  const std::string* target = job_.environment.find("TORCHELASTIC_ERROR_FILE");
  if (target == nullptr || target->empty() || root.error_file_path.empty()) return;
  auto written = call_with_deadline<Result<void>>(
      Deadline::in(kCopyTime), [from = root.error_file_path, to = *target, code = root.status.popen_code()] {
        return copy_with_code(from, to, code);
      });
  const std::string why = !written    ? "a file system does not respond"
                          : !*written ? written->error().text()
                                      : std::string();
  if (!why.empty()) console_.log().warn("cannot copy {} to {}: {}", root.error_file_path, *target, why);
}

void Conclusion::record_ends(const Crew& crew, const std::string& failure) {
  crew.record_ends(*events_, !failure.empty());
  // torchrun's agent has succeeded even then: it did its work.
  events_->agent_ended(torchrun_ ? "" : failure, count_.restarts);
}

}  // namespace muster::agent
