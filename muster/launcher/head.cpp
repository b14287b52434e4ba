#include "muster/launcher/head.h"

#include <algorithm>
#include <csignal>

#include "muster/base/environment.h"
#include "muster/base/printable.h"
#include "muster/process/signals.h"
#include "muster/rendezvous/words.h"
#include "muster/report/outcome_codec.h"
#include "muster/report/publication.h"
#include "muster/report/stop_cause.h"
#include "muster/report/voice.h"
#include "muster/report/words.h"

namespace muster::launcher {

using job::Ending;
using rendezvous::Decision;
using rendezvous::Node;
using rendezvous::State;

namespace {

constexpr int kTorchrunFailed = 1;
// Sooner than this nobody wonders what we wait for.
constexpr auto kSilence = std::chrono::seconds(1);
constexpr auto kReaderPatience = std::chrono::seconds(2);  // of --events, at the end
constexpr size_t kKeptRefusals = 16;
constexpr size_t kRefusalsInHeadline = 2;

std::string refused_text(const std::pair<const std::string, std::string>& refusal) {
  return fmt::format("refused {}: {}", refusal.first, refusal.second);
}

// Of a node that came and gave up, by its agent's exit code.
Ending ending_of_refusal(int code) {
  constexpr int kUsage = 2, kNotExecutable = 126, kNotFound = 127;
  switch (code) {
    case kUsage:
      return Ending::kSetUpFailed;
    case kNotFound:
      return Ending::kNotFound;
    case kNotExecutable:
      return Ending::kNotExecutable;
    default:
      return Ending::kJoinTimeout;
  }
}

// The same way of failing has the same text, whichever pid, address or time it speaks of.
std::string fingerprint_of(const report::WorkerOutcome& root) {
  const std::string& exception = root.output.exception_line;
  return fmt::format("rank {}: {}", root.rank,
                     exception.empty() ? root.status.text() : exception.substr(0, exception.find(':')));
}

}  // namespace

Head::Head(output::Console& console, const job::JobSpec& job, const rendezvous::MembershipOptions& membership)
    : console_(console), job_(job), membership_(membership) {}

void Head::show_waiting(const State& state, TimePoint now) {
  using rendezvous::RoundState;
  const bool waits = state.round_state == RoundState::kNone || state.round_state == RoundState::kStopping;
  const Duration elapsed = now - state.began;
  if (over() || !waits || !state.gathering || elapsed < kSilence) return hide_waiting();
  if (console_.is_terminal(job::Stream::kStderr)) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(elapsed).count();
    console_.set_live_line("muster: " + waiting_for(state), fmt::format(" · {} s", seconds));
    live_line_ = true;
    return;
  }
  std::map<int, std::string> news;
  for (const auto& [position, note] : notes_) news[position] = note.news();
  const std::string line = waiting_line(state, membership_, news);
  if (std::exchange(said_waiting_, line) != line) console_.log().info("{}", line);
}

std::string Head::waiting_for(const State& state) const {
  std::map<int, std::string> notes;
  for (const auto& [position, note] : notes_) notes[position] = note.now();
  return waiting_line(state, membership_, notes);
}

void Head::hide_waiting() {
  if (std::exchange(live_line_, false)) console_.set_live_line("");
}

void Head::joined(const Node& node) {
  if (node.join.position) notes_.erase(*node.join.position);
  refusals_.erase(node.join.host);  // it may now
  for (const std::string& address : node.join.addresses) refusals_.erase(address);
  if (!alone())
    console_.log().debug("{} has joined with {} worker{}", node.join.host, node.join.workers,
                         node.join.workers == 1 ? "" : "s");
  if (on_joined) on_joined(node);
}

void Head::gone(const Node& node, const rendezvous::Loss& loss) {
  console_.log().debug("{} is gone: {}", node.join.host, rendezvous::cause_text(loss));
  show_progress(node.join.host, "");
  if (on_gone) on_gone(node, loss);
}

void Head::refused(const std::string& who, const std::string& why) {
  console_.log().warn("refused {}: {}", who, why);
  if (refusals_.size() < kKeptRefusals) refusals_[who] = why;
}

std::string Head::refusal_of(const std::string& host) const {
  auto found = refusals_.find(host);
  return found == refusals_.end() ? std::string() : found->second;
}

void Head::changed(const State& state, const Decision& decision) {
  decision_ = decision;
  restarts_ = state.restarts;
  lost_ = state.lost;
  signal_ = state.stop_signal;
  signalled_host_ = state.stop_host;
  hopeless_.clear();
  for (const auto& [position, why] : state.hopeless) hopeless_.insert(position);
  const size_t may_come = rendezvous::expected_hosts(state, membership_).awaited.size();
  timed_out_ = membership_.expected == 0 || state.nodes.size() + may_come >= rendezvous::needed_nodes(membership_);
  switch (decision.kind) {
    case Decision::Kind::kStopRound:
      if (decision.counts_as_restart) break;                    // who failed has been said
      if (state.stop_signal && state.stop_host.empty()) break;  // so has who was signalled
      [[fallthrough]];
    case Decision::Kind::kDropNode:
      console_.log().info("{}", decision.reason);
      break;
    case Decision::Kind::kOpenRound:
      hide_waiting();
      refusals_.clear();  // the round has all it needs without them
      if (state.round >= 0 && !alone()) console_.log().info("{}{}", decision.reason, cause_of_restart(state));
      if (state.round >= 0 && alone() && !torchrun())  // torchrun does not say so
        console_.log().info("restart {} of {}{}", state.restarts + 1, job_.max_restarts, cause_of_restart(state));
      break;
    default:
      if (!alone() || decision.kind == Decision::Kind::kEndJob)
        console_.log().debug("{}", rendezvous::reason_text(decision, Clock::now()));
  }
  round_ = std::max(state.round, 0);
}

// ": rank 3 on n2 failed (exit code 1: ValueError: bad batch)"; empty if the round does not begin because of a failure.
std::string Head::cause_of_restart(const State& state) const {
  if (!state.counts_as_restart || outcomes_.empty() || !verdict_.has_root_cause()) return {};
  const report::WorkerOutcome& root = outcomes_[verdict_.root];
  return fmt::format(": {} failed ({})", name_of(root), report::failure_in_short(root));
}

std::string Head::last_reason() const { return rendezvous::reason_text(decision_, Clock::now()); }

void Head::round_started(const State& state) {
  round_ = state.round;
  restarts_ = state.restarts;
  hide_waiting();
  if (!alone())
    console_.log().debug("round {}: all workers of {} nodes are started", state.round, state.members.size());
}

void Head::worker_failed(const Node& node, const rendezvous::WorkerFailed& failed) {
  if (!alone()) console_.log().info("rank {} on {} failed: {}", failed.rank, node.join.host, failed.what);
}

std::string Head::name_of(const report::WorkerOutcome& worker) const {
  return alone() ? fmt::format("rank {}", worker.rank) : fmt::format("rank {} on {}", worker.rank, worker.host);
}

void Head::take(const std::vector<rendezvous::NodeOutcomes>& nodes) {
  outcomes_.clear();
  verdict_ = {};
  start_error_.clear();
  for (const rendezvous::NodeOutcomes& node : nodes) {
    if (node.bytes.empty()) continue;
    auto decoded = report::decode_outcomes(node.bytes, node.clock_offset.value_or(Duration(0)));
    if (!decoded) {
      console_.log().warn("{}: {}", node.host, decoded.error().message);
      continue;
    }
    std::move(decoded->begin(), decoded->end(), std::back_inserter(outcomes_));
  }
  std::sort(outcomes_.begin(), outcomes_.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  if (!outcomes_.empty()) verdict_ = report::judge(outcomes_);
}

rendezvous::Failure Head::judge(int round, const std::vector<rendezvous::NodeOutcomes>& nodes) {
  round_ = judged_round_ = round;
  take(nodes);
  auto unstarted = std::ranges::find_if(nodes, [](const auto& node) { return !node.start_error.empty(); });
  if (unstarted != nodes.end()) start_error_ = fmt::format("{}: {}", unstarted->host, unstarted->start_error);
  rendezvous::Failure failure;
  if (!start_error_.empty() || outcomes_.empty()) {
    failure.text = start_error_.empty() ? "it is not known how the workers ended" : start_error_;
    failure.exit_code = torchrun() ? kTorchrunFailed : kMusterFailed;
    failure.can_restart = false;
    return failure;
  }
  console_.log().debug("root cause: {}", verdict_.reason);
  const report::WorkerOutcome& root = outcomes_[verdict_.root];
  if (alone() && !signal_) report::Voice(console_, job_.flavor).failed(root, job_.command.program);
  failure.rank = root.rank;
  failure.host = root.host;
  failure.fingerprint = fingerprint_of(root);
  failure.after = root.ended - root.started;
  failure.text = fmt::format("{} failed: {}", name_of(root), report::how_it_ended(root));
  failure.exit_code = torchrun() ? kTorchrunFailed : report::job_exit_code(root);
  return failure;
}

std::string Head::ended(const Decision& decision, const std::vector<rendezvous::NodeOutcomes>& outcomes) {
  ending_ = decision;
  const bool signalled = decision.ending == Ending::kSignalled;
  // A round that was not judged has ended without any worker's fault; a signal has ended its workers.
  if (judged_round_ != round_) take(signalled ? outcomes : std::vector<rendezvous::NodeOutcomes>());
  hide_waiting();
  // The nodes hear nothing meanwhile, and take a coordinator that is silent for a lease for lost.
  if (signalled && !alone()) ask_scheduler(std::min(report::kSchedulerTime, membership_.lease / 2));
  if (on_ended) on_ended();
  if (decision.ending == Ending::kSucceeded || alone()) return {};
  return report::report_text(job_, make_report(), false);
}

void Head::ask_scheduler(Duration longest) {
  stop_cause_ = report::scheduler_cause(signal_.value_or(SIGTERM), own_environment(), longest);
}

void Head::conclude_alone() {
  if (!ending_ || !start_error_.empty()) return;
  if (ending_->ending == Ending::kSignalled)
    ask_scheduler(report::kSchedulerTime);
  else if (!outcomes_.empty())
    report::copy_error_file(job_, console_, outcomes_[verdict_.root]);
  write_report();
  publish();
}

int Head::exit_code() const {
  if (!ending_) return kMusterFailed;
  return ending_->exit_code != 0 && torchrun() ? kTorchrunFailed : ending_->exit_code;
}

// But for those whom the message has named already.
std::vector<std::string> Head::missing_nodes(size_t refusals_told) const {
  std::vector<std::string> missing;
  for (const auto& [position, note] : notes_) {
    // Nobody has waited for those that were on their way when it was clear that too few could come.
    if (hopeless_.contains(position) || (!timed_out_ && !note.has_failed())) continue;
    const auto index = static_cast<size_t>(position);
    const std::string host = index < membership_.expected_hosts.size() ? membership_.expected_hosts[index] : "";
    missing.push_back(fmt::format("{}: {}", host, note.all()));
  }
  for (auto refusal = std::next(refusals_.begin(), static_cast<ptrdiff_t>(refusals_told)); refusal != refusals_.end();
       ++refusal)
    missing.push_back(refused_text(*refusal));
  return missing;
}

report::Report Head::make_report() const {
  const Ending ending = ending_->ending;
  const bool by_worker = (ending == Ending::kWorkerFailed || ending == Ending::kCrashLoop) && start_error_.empty();
  report::Report report = report::make_report(job_, ending, exit_code(), outcomes_, verdict_, !alone());
  report.round = round_;
  report.restarts = restarts_;
  report.lost_nodes = rendezvous::loss_texts(lost_);
  if (by_worker) {
    if (ending == Ending::kCrashLoop) report.note = ending_->reason;
    return report;
  }
  // No worker is to blame: those that failed did so because of what is said here. On one machine all workers are stopped
  // at the same moment, so that one which had failed before is told from the others.
  if (!alone())
    for (report::Blame& blame : report.verdict.blames)
      if (blame == report::Blame::kRootCause) blame = report::Blame::kPeer;
  report.message = start_error_.empty() ? ending_->reason : start_error_;
  report.note = stop_cause_;
  if (!start_error_.empty()) report.kind = Ending::kMusterFailed;
  if (ending == Ending::kSignalled) {
    report.signal = signal_.value_or(SIGTERM);
    report.signalled_host = signalled_host_;
  }
  if (ending == Ending::kJoinTimeout) report.kind = ending_of_refusal(ending_->exit_code);
  if (ending == Ending::kJoinTimeout || ending == Ending::kNodeLost) {  // too few came, or came back
    // Where nobody knows who should come, whoever came and was refused is the likeliest cause.
    size_t told = 0;
    std::string causes;
    for (auto refusal = refusals_.begin(); refusal != refusals_.end() && told < kRefusalsInHeadline; ++refusal) {
      if (membership_.expected > 0) break;
      causes += refused_text(*refusal) + "; ";
      ++told;
    }
    report.message = causes + report.message;
    for (std::string& missing : missing_nodes(told)) report.lost_nodes.push_back(std::move(missing));
  }
  return report;
}

void Head::publish() {
  if (!ending_ || ending_->ending == Ending::kSucceeded) return;
  console_.write(job::Stream::kStderr, report::report_text(job_, make_report(), report::wants_colour(job_)));
}

void Head::write_report() {
  if (ending_ && ending_->ending != Ending::kSucceeded) report::write_report_file(job_, console_, make_report());
}

void Head::show_progress(const std::string& host, const std::string& text) {
  if (live_line_ || (text.empty() && host != progress_of_)) return;
  progress_of_ = text.empty() ? "" : host;
  console_.set_live_line(text);
}

Result<void> Head::open_events(const std::string& path) {
  MUSTER_TRY(events_, report::EventsFile::open(path));
  return {};
}

void Head::finish_events() { events_.finish(Deadline::in(kReaderPatience), console_.log()); }

bool Head::output(const std::string& host, const rendezvous::Chunk& chunk) {
  if (chunk.stream == rendezvous::Chunk::kEvents) {
    events_.write(chunk.bytes, console_.log());
    return true;
  }
  if (chunk.stream == rendezvous::Chunk::kLiveLine) {
    show_progress(host, chunk.bytes);
    return true;
  }
  last_output_ = Clock::now();
  if (on_stdout && chunk.stream == 0) {
    on_stdout(host, chunk.bytes);
    return true;
  }
  const auto stream = chunk.stream == 0 ? job::Stream::kStdout : job::Stream::kStderr;
  const void* writer = &writers_[fmt::format("{}/{}", host, chunk.stream)];
  console_.begin(stream, writer).append(chunk.bytes);
  console_.commit(stream);
  return console_.has_room(stream);
}

}  // namespace muster::launcher
