#include "muster/launcher/fan_out.h"

#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <memory>

#include "muster/agent/supervisor.h"
#include "muster/agent/warden.h"
#include "muster/base/environment.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/job/stop_policy.h"
#include "muster/launcher/agents.h"
#include "muster/launcher/door.h"
#include "muster/launcher/head.h"
#include "muster/launcher/retry_policy.h"
#include "muster/launcher/status_server.h"
#include "muster/net/name_queue.h"
#include "muster/output/receiver.h"
#include "muster/process/signals.h"
#include "muster/process/urgency.h"
#include "muster/rendezvous/coordinator.h"
#include "muster/report/publication.h"
#include "muster/report/voice.h"

namespace muster::launcher {
namespace {

// A node that was a member for so long is lost by some new misfortune, not by what keeps it from starting.
constexpr auto kLife = std::chrono::seconds(10);
constexpr auto kShowPeriod = std::chrono::milliseconds(250);
// For agents to hear of the end and to deliver what their workers wrote; longer as long as output keeps coming.
constexpr Duration kLastWordTime = std::chrono::seconds(10);
constexpr Duration kLastWordTimeAfterKill = std::chrono::seconds(2);
constexpr auto kFlushTime = std::chrono::seconds(5);
constexpr std::string_view kErrorLine = "muster: error: ";  // as an agent says what it ends with

// A sentence about a host without the host's name in front, which stands there anyway.
std::string without_host(const std::string& text, const std::string& host) {
  return text.starts_with(host + ": ") ? text.substr(host.size() + 2) : text;
}

class FanOutRun {
 public:
  explicit FanOutRun(const FanOut& spec);
  int run();

 private:
  // What is known of one host of the list. Nobody joins with another position (membership.h).
  struct Place {
    int attempts = 0;
    std::string complaint;  // of its agent, about what keeps it from joining
    std::string error;      // the same as a line on its stderr
    bool joined = false;
    bool ended = false;  // its agent, or the way to it
    net::EventLoop::TimerId retry = 0;
  };

  Result<void> prepare();
  void start_agents();
  void start_agent(int position);
  std::string describe(const std::string& question);
  cluster::Starter::Handlers starter_handlers();
  void agent_said(int position, std::string_view line);
  void say(int position, std::string_view line);
  void agent_failed(int position, cluster::StartFailure failure);
  void node_joined(const rendezvous::Node& node);
  void node_gone(const rendezvous::Node& node, const rendezvous::Loss& loss);

  void take_signals();
  void take_signal(int signal);
  void say_stopping(int signal);
  void show();
  void wait_for_last_words();
  void say_missing_output();
  void wait_for_console();
  void wait_for_agents();
  int conclude();
  int fail(const Error& error);

  const FanOut& spec_;
  net::EventLoop loop_;
  output::Console console_;
  Head head_;
  std::optional<process::SignalQueue> signals_;
  std::vector<std::string> endpoints_;
  std::unique_ptr<rendezvous::Coordinator> coordinator_;
  output::Receiver output_{
      loop_, [this](const std::string& host, const rendezvous::Chunk& chunk) { return head_.output(host, chunk); },
      [this] {
        if (head_.over()) loop_.stop();  // it may wait for the last of them
      }};
  // Strangers must not take the places of agents that are being started.
  net::NameQueue names_{loop_, [this](const std::string&, const std::vector<net::Address>& addresses) {
                          for (const net::Address& address : addresses) coordinator_->expect(address);
                        }};
  std::unique_ptr<cluster::Starter> starter_;
  std::unique_ptr<StatusServer> status_;
  std::vector<Place> places_;
  std::vector<int> stop_signals_;
  bool killed_ = false;  // by a second SIGINT
};

FanOutRun::FanOutRun(const FanOut& spec)
    : spec_(spec),
      console_(loop_, {.colour = report::wants_colour(spec.job),
                       .torchrun_style = spec.job.flavor != job::Flavor::kMuster,
                       .threshold = spec.job.log_threshold}),
      head_(console_, spec.job, spec_.membership),
      places_(spec.hosts.size()) {
  head_.on_joined = [this](const rendezvous::Node& node) { node_joined(node); };
  head_.on_gone = [this](const rendezvous::Node& node, const rendezvous::Loss& loss) { node_gone(node, loss); };
  head_.on_ended = [this] { loop_.stop(); };
  head_.on_stdout = spec.on_stdout;
  head_.on_describe = [this](const std::string& name) { return describe(name); };
}

Result<void> FanOutRun::prepare() {
  MUSTER_TRY(signals_, process::SignalQueue::open(agent::forwarded_signals()));
  loop_.watch(signals_->fd(), EPOLLIN, [this](uint32_t) { take_signals(); });
  console_.set_spool(temporary_directory(), spec_.job.output.cap);
  console_.hold_back();  // the nodes keep their output
  if (!spec_.job.events_file.empty()) MUSTER_TRY_VOID(head_.open_events(spec_.job.events_file));
  MUSTER_TRY(net::Listener listener, open_door(spec_.ports));
  report::remove_old_report(spec_.job);
  if (spec_.adapter->is_local()) {
    endpoints_ = {fmt::format("127.0.0.1:{}", listener.port)};
  } else {
    std::vector<std::string> names;
    for (const cluster::Host& host : spec_.hosts) names.push_back(host.name);
    MUSTER_TRY(endpoints_, own_endpoints(listener.port, spec_.interface, names));
  }
  rendezvous::CoordinatorOptions options;
  options.membership = spec_.membership;
  options.token = spec_.secret.token;
  options.sealed_token = spec_.secret.sealed;
  options.stop_grace = job::grace_after_failure(spec_.job);
  coordinator_ = std::make_unique<rendezvous::Coordinator>(loop_, console_.log(), std::move(options), head_);
  if (coordinator_->failure()) return *coordinator_->failure();
  coordinator_->serve_output(
      [this](std::unique_ptr<rendezvous::Channel> channel) { output_.accept(std::move(channel)); });
  coordinator_->listen(std::move(listener.fd));
  status_ = StatusServer::open(loop_, console_.log(), spec_.job, coordinator_->engine(), head_, "fanout");
  console_.on_room([this] {  // one acknowledgement is for both streams
    if (console_.has_room(job::Stream::kStdout) && console_.has_room(job::Stream::kStderr)) output_.room();
  });
  return {};
}

int FanOutRun::run() {
  if (auto prepared = prepare(); !prepared) return fail(prepared.error());
  start_agents();
  show();
  loop_.run();
  return conclude();
}

// --- Agents ---------------------------------------------------------------------------------------------------------

cluster::Starter::Handlers FanOutRun::starter_handlers() {
  return {.progress = [this](int position, const cluster::Progress& what) { head_.set_progress(position, what); },
          .failed = [this](int position, const cluster::StartFailure& failure) { agent_failed(position, failure); },
          .said = [this](int position, std::string_view line) { agent_said(position, line); }};
}

void FanOutRun::agent_said(int position, std::string_view line) {
  if (auto progress = progress_of(line)) return head_.set_progress(position, *progress);
  Place& place = places_[static_cast<size_t>(position)];
  if (place.joined) return say(position, line);
  if (head_.over()) return;  // what keeps a node from a job that is over is no news
  // It is said together with what comes of it.
  if (!line.starts_with(kErrorLine)) return say(position, line);
  place.error = line.substr(kErrorLine.size());
}

void FanOutRun::say(int position, std::string_view line) {
  console_.write(job::Stream::kStderr,
                 fmt::format("[{}] {}\n", spec_.hosts[static_cast<size_t>(position)].name, printable(line)));
}

void FanOutRun::start_agents() {
  starter_ = make_starter(spec_, endpoints_, loop_, starter_handlers());
  for (size_t i = 0; i < spec_.hosts.size(); ++i) start_agent(static_cast<int>(i));
}

void FanOutRun::start_agent(int position) {
  Place& place = places_[static_cast<size_t>(position)];
  ++place.attempts;
  place.complaint.clear();
  place.error.clear();
  place.ended = false;
  const cluster::Host& host = spec_.hosts[static_cast<size_t>(position)];
  if (!spec_.adapter->is_local()) names_.ask(host.name.substr(host.name.rfind('@') + 1));  // who logs in is ssh's
  starter_->start(position, host, description_for(spec_, endpoints_, position));
}

// Of an agent that asks. Another life of a host gets the same.
std::string FanOutRun::describe(const std::string& question) {
  const size_t end = std::min(question.find(kComplaint), question.size());
  for (size_t i = 0; i < spec_.hosts.size(); ++i) {
    if (spec_.hosts[i].name != std::string_view(question).substr(0, end)) continue;
    if (end < question.size()) {
      places_[i].complaint = question.substr(end + 1);
      break;
    }
    starter_->asked(static_cast<int>(i));
    return description_for(spec_, endpoints_, static_cast<int>(i));
  }
  return {};
}

void FanOutRun::node_joined(const rendezvous::Node& node) {
  output_.expect(node.id, node.join.host);
  if (!node.join.position) return;
  Place& place = places_[static_cast<size_t>(*node.join.position)];
  place.joined = true;
  loop_.cancel(place.retry);  // one that was taken for lost
  starter_->joined(*node.join.position);
  coordinator_->host_hopeful(*node.join.position);
}

// Its agent will not come back by itself; another life may.
void FanOutRun::node_gone(const rendezvous::Node& node, const rendezvous::Loss& loss) {
  output_.lost(node.id, loss.cause != rendezvous::Loss::Cause::kClosed);
  if (!node.join.position || head_.over()) return;
  const int position = *node.join.position;
  Place& place = places_[static_cast<size_t>(position)];
  loop_.cancel(place.retry);
  starter_->abandon(position);
  const bool lived = node.ended_by_our_pause || Clock::now() - node.joined >= kLife;
  place = {.attempts = lived ? 0 : place.attempts, .complaint = {}, .error = {}};
  if (!stop_signals_.empty()) return;  // the job ends
  // An agent that dies as soon as it is there, a spare's perhaps, is not started for ever.
  if (!lived)
    return agent_failed(
        position,
        {cluster::StartCause::kAgentEnded, {ErrorKind::kPeer, "its agent ended soon after it had joined", {}}, true});
  place.retry = loop_.call_after(rendezvous::kCloseMargin, [this, position] { start_agent(position); });
}

void FanOutRun::agent_failed(int position, cluster::StartFailure failure) {
  Place& place = places_[static_cast<size_t>(position)];
  place.ended = true;
  if (head_.over()) loop_.stop();            // somebody may wait for it
  if (head_.over() || place.joined) return;  // the control connection tells what became of a member
  const size_t present = coordinator_->state().nodes.size();
  const RetryDecision decision =
      decide_retry(place.attempts, failure.may_try_again, present >= rendezvous::needed_nodes(spec_.membership));
  const std::string& host = spec_.hosts[static_cast<size_t>(position)].name;
  // The coordinator's refusal and the agent's own complaint say more than how the agent ended.
  if (std::string told = head_.refusal_of(host); !told.empty() || !place.complaint.empty())
    failure.why = {failure.why.kind, told.empty() ? place.complaint : std::move(told), {}};
  failure.why.message = without_host(failure.why.message, host);
  const std::string error = without_host(place.error, host);
  if (failure.why.text().find(error) == std::string::npos) say(position, std::string(kErrorLine) + error);
  head_.set_failure(position, failure, decision.hopeless ? 0 : place.attempts);
  if (decision.hopeless) coordinator_->host_hopeless(position, failure.why);
  if (decision.again) place.retry = loop_.call_after(decision.after, [this, position] { start_agent(position); });
}

// --- Signals and time -----------------------------------------------------------------------------------------------

void FanOutRun::take_signals() {
  while (auto received = signals_->next()) take_signal(received->signal);
}

void FanOutRun::say_stopping(int signal) {
  const size_t nodes = coordinator_->state().nodes.size();
  const std::string name = process::signal_name(signal);
  if (nodes == 0) return console_.log().info("{}: stopping, {}", name, head_.waiting_for(coordinator_->state()));
  console_.log().info("{}: stopping the job on {} node{}, SIGKILL in {}{}", name, nodes, nodes == 1 ? "" : "s",
                      seconds_text(job::grace_after_signal(spec_.job)), report::second_signal_hint(signal));
}

void FanOutRun::take_signal(int signal) {
  const size_t before = stop_signals_.size();
  const bool killed_before = killed_;
  switch (job::meaning_of(signal, spec_.job.signals_to_handle, stop_signals_)) {
    case job::SignalMeaning::kStop:
      stop_signals_.push_back(signal);
      say_stopping(signal);
      coordinator_->stop(signal);
      break;
    case job::SignalMeaning::kKill:
      stop_signals_.push_back(signal);
      killed_ = true;
      console_.log().warn("second SIGINT: killing all workers");
      coordinator_->kill();
      break;
    case job::SignalMeaning::kPassOn:
      if (!stop_signals_.empty()) stop_signals_.push_back(signal);
      coordinator_->pass_signal(signal);
      break;
    case job::SignalMeaning::kSuspend:
      console_.log().warn("SIGTSTP is ignored: it cannot suspend a job of several nodes");
      break;
    case job::SignalMeaning::kResume:
    case job::SignalMeaning::kResize:
    case job::SignalMeaning::kIgnore:
      break;
  }
  // A signal after the kill, or after the end of the job, ends the wait for the nodes. The kill itself does not: the
  // coordinator has yet to drop the nodes that do not answer.
  if (stop_signals_.size() > before && (killed_before || head_.over())) loop_.stop();
}

void FanOutRun::show() {
  head_.show_waiting(coordinator_->state(), Clock::now());
  loop_.call_after(kShowPeriod, [this] { show(); });
}

// --- The end --------------------------------------------------------------------------------------------------------

// Until every agent has delivered its workers' last lines and hung up. While our own reader is behind, nodes that are
// silent wait for it.
void FanOutRun::wait_for_last_words() {
  auto deserted = [this] { return coordinator_->deserted() && output_.connections() == 0; };
  coordinator_->on_deserted([this] { loop_.stop(); });
  console_.on_idle([this] { loop_.stop(); });
  const size_t signals = stop_signals_.size();
  // An agent whose connection for output is stuck notices within a lease, and makes another.
  const Duration each = coordinator_->state().killed_at ? kLastWordTimeAfterKill
                        : stop_signals_.empty()         ? kLastWordTime + spec_.membership.lease
                                                        : kLastWordTime;
  TimePoint caught_up = Clock::now();
  while (!deserted() && stop_signals_.size() == signals) {
    const bool behind = stop_signals_.empty() && !console_.idle_or_stuck(kFlushTime);
    if (behind) caught_up = Clock::now();
    const TimePoint until = std::max(caught_up, head_.last_output()) + each;
    if (!loop_.run_until(behind ? Deadline::in(kShowPeriod) : Deadline::at(until)) && !behind && until <= Clock::now())
      break;
  }
  coordinator_->on_deserted(nullptr);
  if (stop_signals_.size() == signals) say_missing_output();
}

void FanOutRun::say_missing_output() {
  for (const auto& node : output_.unfinished())
    console_.log().warn("{}: the end of its output is missing: {}; {} bytes of it have arrived", node.host,
                        node.connected ? "nothing more came" : "its connection for output was lost", node.bytes);
}

// A slow reader may take its time, unless a signal has asked us to end; a further signal ends the wait.
void FanOutRun::wait_for_console() {
  const size_t signals = stop_signals_.size();
  const Deadline deadline = Deadline::at(stop_signals_.empty() ? TimePoint::max() : Clock::now() + kFlushTime);
  console_.on_idle([this] { loop_.stop(); });
  while (!console_.idle_or_stuck(kFlushTime) && stop_signals_.size() == signals && !deadline.passed())
    loop_.run_until(Deadline::at(std::min(deadline.time(), Clock::now() + kShowPeriod)));
}

// Until the agents that are there have ended: one of them may still write the record.
void FanOutRun::wait_for_agents() {
  const Deadline deadline = Deadline::in(spec_.agents_patience);
  const size_t signals = stop_signals_.size();
  auto works = [](const Place& place) { return place.joined && !place.ended; };
  while (std::any_of(places_.begin(), places_.end(), works) && stop_signals_.size() == signals && !deadline.passed())
    loop_.run_until(deadline);
}

int FanOutRun::conclude() {
  if (head_.over()) wait_for_last_words();
  if (head_.over()) wait_for_agents();
  status_.reset();
  wait_for_console();
  console_.say_what_stdout_lost();
  head_.finish_events();
  head_.write_report();
  head_.publish();
  wait_for_console();
  if (head_.over()) return head_.exit_code();
  constexpr int kSignalBase = 128;
  return stop_signals_.empty() ? kMusterFailed : kSignalBase + stop_signals_.front();
}

int FanOutRun::fail(const Error& error) {
  console_.log().error("{}", error.text());
  console_.flush(Deadline::in(kFlushTime));
  return muster::exit_code(error);
}

}  // namespace

int run_fan_out(const FanOut& spec) {
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_DUMPABLE, 0);  // a core dump would have the token
  process::prefer_short_turns();
  return FanOutRun(spec).run();
}

}  // namespace muster::launcher
