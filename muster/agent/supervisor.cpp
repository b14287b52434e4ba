#include "muster/agent/supervisor.h"

#include <algorithm>
#include <csignal>
#include <memory>
#include <utility>

#include "muster/agent/conclusion.h"
#include "muster/agent/director.h"
#include "muster/agent/drain.h"
#include "muster/agent/file_timers.h"
#include "muster/agent/reach.h"
#include "muster/agent/round_runner.h"
#include "muster/agent/round_store.h"
#include "muster/agent/script_file.h"
#include "muster/agent/traces.h"
#include "muster/agent/warden.h"
#include "muster/agent/warden_watch.h"
#include "muster/job/stop_policy.h"
#include "muster/job/worker_cpus.h"
#include "muster/output/console.h"
#include "muster/output/output.h"
#include "muster/output/uplink.h"
#include "muster/process/signals.h"
#include "muster/process/terminal.h"
#include "muster/process/urgency.h"
#include "muster/report/events.h"
#include "muster/report/publication.h"
#include "muster/report/voice.h"

namespace muster::agent {
namespace {

// Between SIGTSTP, which a worker may handle, and SIGSTOP, which it cannot (and without which a session of its own
// would not stop at all).
constexpr auto kSuspendDelay = std::chrono::milliseconds(50);
// For the reader of the console when everything was killed.
constexpr auto kLastFlushTime = std::chrono::milliseconds(200);
// For the last words of a coordinator in this process to reach the other nodes.
constexpr auto kLastWordTime = std::chrono::seconds(5);

std::unique_ptr<output::Uplink> open_uplink(net::EventLoop& loop, const job::JobSpec& job) {
  if (!job.membership || !job.membership->output_to_launcher) return nullptr;
  return std::make_unique<output::Uplink>(loop);
}

output::Console::Options console_options(const job::JobSpec& job, output::Uplink* uplink) {
  output::Console::Options options{.colour = report::wants_colour(job),
                                   .torchrun_style = job.flavor != job::Flavor::kMuster,
                                   .threshold = job.log_threshold};
  if (uplink == nullptr) return options;
  options.colour = false;
  options.speaker = job.host;
  options.outlets = uplink->outlets();
  options.columns = job.output.columns;
  options.live_line = [uplink](std::string text) { uplink->set_live_line(std::move(text)); };
  return options;
}

class Supervisor final : public NodeControl {
 public:
  Supervisor(const job::JobSpec& job, const AgentContext& context)
      : job_(job),
        context_(context),
        uplink_(open_uplink(loop_, job)),
        console_(loop_, console_options(job, uplink_.get())),
        voice_(console_, job.flavor) {}

  int run();

  net::EventLoop& loop() override { return loop_; }
  output::Console& console() override { return console_; }
  report::Voice& voice() override { return voice_; }
  report::Events& events() override { return *events_; }
  Crew* crew() override { return rounds_ ? rounds_->crew() : nullptr; }
  const std::vector<int>& stop_signals() const override { return stop_signals_; }
  output::Uplink* uplink() override { return uplink_.get(); }
  bool own_name_is_reachable() const override { return name_is_reachable_; }
  Result<void> join_job(const std::string& id) override;
  Result<uint16_t> open_store(const StoreAccess& access) override;
  void close_store() override { store_.reset(); }
  void start_round(const job::Round& round) override { rounds_->start(round); }
  void stop_round(int signal, Duration grace) override { rounds_->stop(signal, grace); }
  void finish() override;

 private:
  Result<void> prepare();
  void timer_expired(const TimerRequest& timer);
  void make_rounds();
  void round_ended(const std::optional<Error>& error);

  void take_signals();
  void take_signal(int signal);
  void act_on(int signal);
  void stop_by_signal(int signal);
  void suspend();
  void resume();

  // By its place in the launcher's list, or its --node-rank; a job of one node has no other.
  bool is_first_node() const {
    return !job_.membership || job_.membership->position.value_or(job_.membership->rank.value_or(0)) == 0;
  }
  int conclude();
  void tell_logs();
  int conclude_now();
  [[noreturn]] void end_at_once();
  bool stopping_by_signal() const { return !stop_signals_.empty(); }

  const job::JobSpec& job_;
  const AgentContext& context_;
  const process::Terminal terminal_{context_.warden_pid};
  net::EventLoop loop_;
  std::unique_ptr<output::Uplink> uplink_;
  output::Console console_;
  report::Voice voice_;
  std::optional<process::SignalQueue> signals_;
  std::optional<report::Events> events_;
  std::optional<LogDirectories> logs_;
  std::unique_ptr<output::Output> output_;
  std::unique_ptr<FileTimers> timers_;
  std::vector<std::vector<int>> cpus_;
  bool name_is_reachable_ = true;
  std::unique_ptr<Companion> companion_;
  std::unique_ptr<Director> director_;

  std::optional<RoundStore> store_;
  std::unique_ptr<RoundRunner> rounds_;
  std::optional<Error> prepare_error_;
  bool draining_ = false;  // no further round comes

  std::vector<int> stop_signals_;  // what we were asked with, in order
  job::EchoFilter echoes_;
  Drain drain_{loop_, console_, uplink_.get(), stop_signals_};
  bool suspended_ = false;  // the workers, by suspend()
  std::optional<WardenWatch> warden_watch_;
  net::EventLoop::TimerId suspend_timer_ = 0;
};

Result<void> Supervisor::prepare() {
  MUSTER_TRY_VOID(job::check_environment(job_));
  std::vector<int> signals = forwarded_signals();
  signals.push_back(SIGCHLD);
  MUSTER_TRY(signals_, process::SignalQueue::open(signals));
  loop_.watch(signals_->fd(), EPOLLIN, [this](uint32_t) { take_signals(); });
  loop_.watch(context_.warden_pidfd, EPOLLIN, [this](uint32_t) { end_at_once(); });
  if (context_.link != nullptr)
    warden_watch_.emplace(loop_, context_.warden_pid, context_.warden_pidfd, *context_.link,
                          [this](const std::string& why) {
                            console_.log().error("{}; the workers of this node were ended", why);
                            end_at_once();
                          });
  MUSTER_TRY(cpus_, job::cpus_of_workers(job_));
  if (uplink_)
    uplink_->on_reconnected([this] {
      console_.log().info("the connection that brings output to the launcher was lost and has been made anew");
    });
  report::Events::Send send;
  if (uplink_) send = [this](std::string_view line) { uplink_->send_event(line); };
  MUSTER_TRY(events_, report::Events::open(job_, console_, std::move(send)));
  MUSTER_TRY_VOID(write_script(job_.command));
  MUSTER_TRY(logs_, LogDirectories::create(job_));
  const output::LogLayout& layout = logs_->layout();
  if (!layout.warning().empty() && is_first_node()) console_.log().warn("{}", layout.warning());
  context_.scratch.set(layout.temporary_tree());
  // Nobody knows the directory of files that were asked for without a place for them.
  const bool hidden = job_.output.log_dir.empty() && layout.temporary_tree().empty();
  if (job_.flavor == job::Flavor::kMuster && hidden && !job_.membership)
    console_.log().info("logs: {}", layout.run_dir());
  output_ = std::make_unique<output::Output>(loop_, console_, job_, layout);
  // Before anybody waits for us: without a resolver this takes seconds.
  if (job_.membership) name_is_reachable_ = own_name_is_reachable_from_elsewhere();
  if (context_.make_companion) {
    MUSTER_TRY(companion_, context_.make_companion(loop_, console_));
  }
  MUSTER_TRY(timers_, FileTimers::open_if_asked(loop_, job_.environment,
                                                [this](const TimerRequest& timer) { timer_expired(timer); }));
  make_rounds();
  return {};
}

void Supervisor::make_rounds() {
  RoundRunner::Handlers handlers;
  handlers.take_signals = [this] { take_signals(); };
  handlers.started = [this] { director_->round_started(); };
  handlers.failed = [this](const Worker& worker) { director_->worker_failed(worker); };
  handlers.ended = [this](const std::optional<Error>& error) { round_ended(error); };
  rounds_ = std::make_unique<RoundRunner>(RoundRunner::Parts{.loop = loop_,
                                                             .job = job_,
                                                             .logs = *logs_,
                                                             .output = *output_,
                                                             .voice = voice_,
                                                             .events = *events_,
                                                             .log = console_.log(),
                                                             .link = context_.link,
                                                             .timers = timers_.get(),
                                                             .cpus = std::move(cpus_)},
                                          std::move(handlers));
}

void Supervisor::round_ended(const std::optional<Error>& error) {
  loop_.cancel(suspend_timer_);
  terminal_.restore();
  director_->round_ended(error);
}

void Supervisor::timer_expired(const TimerRequest& timer) {
  const Worker* worker = crew() != nullptr ? crew()->owner_of(timer.pid) : nullptr;
  if (worker == nullptr) return;  // anybody may write into the pipe: only the job's own processes are signalled
  voice_.timer_expired(worker->placement.rank, timer.pid, timer.scope, timer.signal);
  ::kill(timer.pid, timer.signal);
}

int Supervisor::run() {
  if (auto prepared = prepare(); !prepared) prepare_error_ = prepared.error();
  director_ = job_.membership
                  ? make_member_node(*this, job_, *context_.link)
                  : make_local_node(*this, job_, companion_ ? companion_->engine() : nullptr, context_.warden_pid);
  if (prepare_error_) {
    int code = conclude_now();
    if (uplink_) {
      uplink_->give_up();
      drain_.wait_for_console();  // for ourselves
    }
    console_.flush(Deadline::in(Drain::kFlushTime));
    return code;
  }
  director_->begin();
  if (!draining_) loop_.run();  // it may have ended before it began
  const int code = conclude();
  if (rounds_->left() == 0) director_->all_is_gone();
  remove_containers(job_);
  return code;
}

void Supervisor::end_at_once() {
  loop_.unwatch(context_.warden_pidfd);
  end_without_warden([this](bool nothing_left) {
    if (nothing_left && director_) director_->all_is_gone();
    remove_traces(job_, context_.scratch);
    terminal_.restore();
    console_.flush(Deadline::in(kLastFlushTime));
  });
}

// --- For the director ---------------------------------------------------------------------------------------------

Result<uint16_t> Supervisor::open_store(const StoreAccess& access) {
  store_.reset();  // a fixed port is free again before it is bound
  auto opened = open_round_store(loop_, console_.log(), job_, access.members);
  if (!opened) return std::move(opened).error();
  store_.emplace(*std::move(opened));
  if (job_.membership && job_.membership->store_on_coordinator_port && companion_)
    companion_->serve_store([this](Fd socket, const net::Address& peer, std::string_view first_bytes) {
      if (store_) store_->adopt(std::move(socket), peer, first_bytes);
    });
  return store_->port();
}

Result<void> Supervisor::join_job(const std::string& id) {
  if (companion_) companion_->joined();
  return logs_->join_job(id, rounds_->disk_patience(), console_.log());
}

// --- Signals ----------------------------------------------------------------------------------------------------

void Supervisor::take_signals() {
  while (auto received = signals_->next()) {
    if (received->signal == SIGCHLD) {
      if (rounds_) rounds_->reap();
    } else if (!echoes_.is_echo(received->signal, received->sender == context_.warden_pid, Clock::now())) {
      take_signal(received->signal);
    }
  }
}

void Supervisor::take_signal(int signal) {
  size_t stops_before = stop_signals_.size();
  act_on(signal);
  // Whoever reads the console is not waited for any longer.
  if (draining_ && stop_signals_.size() > stops_before) loop_.stop();
}

void Supervisor::act_on(int signal) {
  switch (job::meaning_of(signal, job_.signals_to_handle, stop_signals_)) {
    case job::SignalMeaning::kStop:
      stop_signals_.push_back(signal);
      stop_by_signal(signal);
      break;
    case job::SignalMeaning::kKill:
      stop_signals_.push_back(signal);
      if (rounds_) rounds_->kill_now();
      if (director_) director_->kill_asked(signal);
      break;
    case job::SignalMeaning::kPassOn:
      if (stopping_by_signal()) stop_signals_.push_back(signal);
      if (crew() != nullptr) crew()->pass_on(signal);
      break;
    case job::SignalMeaning::kSuspend:
      // The other nodes would take this one for dead. If the job has a launcher, the launcher says so.
      if (!job_.membership)
        suspend();
      else if (!job_.membership->output_to_launcher)
        console_.log().warn("SIGTSTP is ignored: it cannot suspend a job of several nodes");
      break;
    case job::SignalMeaning::kResume:
      resume();
      break;
    case job::SignalMeaning::kResize:
      if (output_) output_->window_resized();
      if (crew() != nullptr) crew()->signal_all(signal);
      break;
    case job::SignalMeaning::kIgnore:
      break;
  }
}

void Supervisor::stop_by_signal(int signal) {
  const bool first = stop_signals_.size() == 1;
  if (!draining_) {
    voice_.signal_received(signal, crew() != nullptr ? crew()->running() : 0, job::grace_after_signal(job_));
    if (rounds_) rounds_->stop(signal, job::grace_after_signal(job_));
  }
  if (first && director_) director_->stop_asked(signal);
}

void Supervisor::suspend() {
  suspended_ = true;
  if (crew() != nullptr) crew()->signal_all(SIGTSTP);
  loop_.cancel(suspend_timer_);
  suspend_timer_ = loop_.call_after(kSuspendDelay, [this] {
    if (crew() != nullptr) crew()->signal_all(SIGSTOP);
    ::raise(SIGSTOP);  // the warden follows when it sees this
  });
}

// SIGCONT also comes without a suspend(): what others have stopped is not ours to continue.
void Supervisor::resume() {
  loop_.cancel(suspend_timer_);
  if (std::exchange(suspended_, false) && crew() != nullptr) crew()->signal_all(SIGCONT);
}

// --- The end ----------------------------------------------------------------------------------------------------

void Supervisor::finish() {
  // There are no rounds if a signal came before all was prepared.
  const bool nothing_runs = !rounds_ || (!rounds_->goes_on() && rounds_->left() == 0);
  if (nothing_runs && context_.link != nullptr) context_.link->end_lease();
  draining_ = true;
  store_.reset();
  loop_.stop();
}

int Supervisor::conclude() {
  drain_.wait_for_files(*output_);
  drain_.wait_for_console();
  console_.say_what_stdout_lost();
  tell_logs();
  int code = conclude_now();
  drain_.wait_for_console();
  if (uplink_) {
    uplink_->end();
    drain_.wait_for_console();
  }
  return code;
}

// One node speaks for all of a job: that of rank 0.
void Supervisor::tell_logs() {
  if (job_.flavor != job::Flavor::kMuster || job_.output.log_dir.empty()) return;
  if (crew() != nullptr && crew()->round().first_rank == 0)
    logs_->say_where(job_.membership.has_value(), console_.log());
}

int Supervisor::conclude_now() {
  Conclusion conclusion(job_, console_, events_ ? &*events_ : nullptr, logs_ ? &logs_->layout() : nullptr,
                        director_->count());
  int code = director_->conclude(conclusion, prepare_error_);
  if (companion_) companion_->finish(Deadline::in(kLastWordTime));
  return code;
}

}  // namespace

int run_job(const job::JobSpec& job, const AgentContext& context) {
  process::prefer_short_turns();
  const int code = Supervisor(job, context).run();
  remove_script(job.command);
  return code;
}

}  // namespace muster::agent
