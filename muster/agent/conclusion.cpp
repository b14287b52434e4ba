#include "muster/agent/conclusion.h"

#include "muster/process/signals.h"
#include "muster/rendezvous/protocol.h"
#include "muster/report/publication.h"

namespace muster::agent {
namespace {

constexpr int kTorchrunFailed = 1;
constexpr int kSignalBase = 128;

}  // namespace

Conclusion::Conclusion(const job::JobSpec& job, output::Console& console, report::Events* events,
                       const output::LogLayout* layout, Count count)
    : job_(job),
      console_(console),
      events_(events),
      layout_(layout),
      count_(count),
      torchrun_(job.flavor != job::Flavor::kMuster) {}

int Conclusion::not_started(const Error& error) {
  int code = torchrun_ ? kTorchrunFailed : exit_code(error);
  // The code of a usage error says that nothing was started, which would be wrong later on.
  if (!torchrun_ && error.kind == ErrorKind::kUsage && count_.round > 0) code = kMusterFailed;
  if (events_ != nullptr) events_->agent_ended(error.text(), count_.restarts);
  if (layout_ != nullptr) layout_->remove_if_temporary(false);
  report::Report result = report::make_report(job_, job::Ending::kMusterFailed, code, {}, {});
  result.round = count_.round;
  result.restarts = count_.restarts;
  result.message = error.text();
  report::write_report_file(job_, console_, result);
  console_.log().error("{}", error.text());
  return code;
}

int Conclusion::ended(const Crew* crew, const rendezvous::EndJob& end) {
  record(crew, end.exit_code == 0 ? "" : end.reason);
  const bool bright = report::wants_colour(job_) && !torchrun_;
  if (!end.text.empty())
    console_.write(job::Stream::kStderr, bright ? report::with_bright_headline(end.text) : end.text);
  return torchrun_ && end.exit_code != 0 ? kTorchrunFailed : end.exit_code;
}

int Conclusion::signalled(int signal, int launcher_pid) {
  events_->agent_ended(fmt::format("received {}", process::signal_name(signal)), count_.restarts);
  layout_->remove_if_temporary(true);
  if (!torchrun_) return kSignalBase + signal;
  constexpr std::string_view kException = "torch.distributed.elastic.multiprocessing.api.SignalException";
  console_.write(job::Stream::kStderr,
                 fmt::format("{}: Process {} got signal: {}\n", kException, launcher_pid, signal));
  return kTorchrunFailed;
}

int Conclusion::failed(const Crew* crew, const Error& error) {
  record(crew, error.text());
  console_.log().error("{}", error.text());
  return torchrun_ ? kTorchrunFailed : kMusterFailed;
}

void Conclusion::record(const Crew* crew, const std::string& failure) {
  if (crew != nullptr) {
    crew->record_ends(*events_, !failure.empty());
    // torchrun's agent has succeeded even then: it did its work.
    events_->agent_ended(torchrun_ ? "" : failure, count_.restarts);
  }
  layout_->remove_if_temporary(!failure.empty());
}

}  // namespace muster::agent
