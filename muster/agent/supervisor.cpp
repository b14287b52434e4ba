#include "muster/agent/supervisor.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <utility>

#include "muster/agent/conclusion.h"
#include "muster/agent/crew.h"
#include "muster/agent/director.h"
#include "muster/agent/file_timers.h"
#include "muster/agent/round_store.h"
#include "muster/agent/script_file.h"
#include "muster/agent/stopper.h"
#include "muster/agent/traces.h"
#include "muster/agent/warden.h"
#include "muster/agent/warden_watch.h"
#include "muster/base/detached_thread.h"
#include "muster/job/stop_policy.h"
#include "muster/job/worker_cpus.h"
#include "muster/net/address.h"
#include "muster/net/interfaces.h"
#include "muster/net/resolve.h"
#include "muster/output/console.h"
#include "muster/output/log_layout.h"
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

// For what a worker that failed left running, while others still run; also how often the agent looks for what is to be
// ended: workers that end at the same moment are swept together.
constexpr auto kSweepDelay = std::chrono::milliseconds(100);
// The same for a worker that exited with 0: processes such as Python's resource tracker and torch.compile's pool end by
// themselves soon after their worker.
constexpr auto kLeaveTime = std::chrono::milliseconds(500);
constexpr auto kSweepTime = std::chrono::milliseconds(500);
constexpr auto kEndAllTime = std::chrono::seconds(10);
// Between SIGTSTP, which a worker may handle, and SIGSTOP, which it cannot (and without which a session of its own
// would not stop at all).
constexpr auto kSuspendDelay = std::chrono::milliseconds(50);
// How often the counters of memory kills are read.
constexpr auto kMemoryPeriod = std::chrono::seconds(10);
// For the reader of a console that belongs to a job that has been asked to end, or has not begun.
constexpr auto kFlushTime = std::chrono::seconds(5);
// How often the agent checks whether a file system still responds.
constexpr auto kFilePeriod = std::chrono::milliseconds(250);

// For the file system of the log files to make directories, or to open the files of a worker; less if the lease is short.
constexpr Duration kDirectoryTime = std::chrono::seconds(3);
constexpr Duration kLeastDirectoryTime = std::chrono::milliseconds(500);
// For the base directory, before there is a lease: an automounter may have to mount it first.
constexpr Duration kLogDirTime = std::chrono::seconds(10);
// To see at the end that it is still there.
constexpr Duration kLastLookTime = std::chrono::seconds(1);

// The same when everything was killed.
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

// Whether another machine could connect to what this one's name resolves to. Asks the resolver, for seconds at most.
bool name_is_reachable() {
  auto addresses = net::resolve(net::hostname(), 0, Deadline::in(net::kOwnNameTime));
  return addresses && std::any_of(addresses->begin(), addresses->end(), [](const net::Address& address) {
           return !address.is_loopback() && net::is_own_address(address);
         });
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
  Crew* crew() override { return crew_.get(); }
  const std::vector<int>& stop_signals() const override { return stop_signals_; }
  output::Uplink* uplink() override { return uplink_.get(); }
  bool own_name_is_reachable() const override { return name_is_reachable_; }
  Result<void> join_job(const std::string& id) override;
  Result<uint16_t> open_store(const StoreAccess& access) override;
  void close_store() override { store_.reset(); }
  void start_round(const job::Round& round) override;
  void stop_round(int signal, Duration grace) override;
  void finish() override;

 private:
  enum class State { kIdle, kStarting, kRunning, kStopping, kDraining };

  Result<void> prepare();
  Result<void> start_file_timers();
  void timer_expired(const TimerRequest& timer);
  Result<void> make_layout();
  Result<void> try_start_round(const job::Round& round);
  Result<std::string> make_attempt(const job::Round& round);
  std::string go_on_without_logs(const std::string& directory);
  Duration disk_patience() const;

  void take_signals();
  void take_signal(int signal);
  void act_on(int signal);
  void stop_by_signal(int signal);
  void reap_orphans();
  void suspend();
  void resume();

  void worker_may_have_ended(Worker& worker);
  void worker_is_gone(Worker& worker);
  void sweep_soon();
  bool keeps_children() const;
  void tell_left_running(TimePoint ended_by, Deadline deadline);
  void end_kept_children();
  void watch_memory();
  void stop_workers(int signal, Duration grace);
  void end_round();

  // By its place in the launcher's list, or its --node-rank; a job of one node has no other.
  bool is_first_node() const {
    return !job_.membership || job_.membership->position.value_or(job_.membership->rank.value_or(0)) == 0;
  }
  int conclude();
  void tell_logs();
  int conclude_now();
  [[noreturn]] void end_at_once();
  void wait_for_files();
  void wait_for_console();
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
  std::optional<output::LogLayout> layout_;
  std::unique_ptr<output::Output> output_;
  std::unique_ptr<FileTimers> timers_;
  std::vector<std::vector<int>> cpus_;
  bool name_is_reachable_ = true;
  std::unique_ptr<Companion> companion_;
  std::unique_ptr<Director> director_;

  State state_ = State::kIdle;
  bool spawning_ = false;  // whoever starts the workers looks itself whether all have ended
  std::optional<RoundStore> store_;
  std::unique_ptr<Crew> crew_;
  std::optional<Stopper> stopper_;    // of that crew, until the round ends
  std::optional<Error> start_error_;  // of the round
  std::optional<Error> prepare_error_;

  std::vector<int> stop_signals_;  // what we were asked with, in order
  job::EchoFilter echoes_;
  bool suspended_ = false;  // the workers, by suspend()
  size_t left_ = 0;         // of what the last round had started: what could not be ended
  std::optional<WardenWatch> warden_watch_;
  net::EventLoop::TimerId sweep_timer_ = 0;
  net::EventLoop::TimerId suspend_timer_ = 0;
  net::EventLoop::TimerId memory_timer_ = 0;
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
  MUSTER_TRY_VOID(make_layout());
  if (!layout_->warning().empty() && is_first_node()) console_.log().warn("{}", layout_->warning());
  context_.scratch.set(layout_->temporary_tree());
  // Nobody knows the directory of files that were asked for without a place for them.
  const bool hidden = job_.output.log_dir.empty() && layout_->temporary_tree().empty();
  if (job_.flavor == job::Flavor::kMuster && hidden && !job_.membership)
    console_.log().info("logs: {}", layout_->run_dir());
  output_ = std::make_unique<output::Output>(loop_, console_, job_, *layout_);
  // Before anybody waits for us: without a resolver this takes seconds.
  if (job_.membership) name_is_reachable_ = name_is_reachable();
  if (context_.make_companion) {
    MUSTER_TRY(companion_, context_.make_companion(loop_, console_));
  }
  return start_file_timers();
}

// Before anything runs: a directory that was asked for and cannot be had ends the job.
Result<void> Supervisor::make_layout() {
  if (job_.output.log_dir.empty()) {
    MUSTER_TRY(layout_, output::LogLayout::create(job_));
    return {};
  }
  auto created = call_with_deadline<Result<output::LogLayout>>(Deadline::in(kLogDirTime),
                                                               [job = job_] { return output::LogLayout::create(job); });
  if (!created)
    return Error{ErrorKind::kTimeout,
                 fmt::format("cannot use the log directory {}: its file system does not respond", job_.output.log_dir),
                 "name another directory with --log-dir"};
  MUSTER_TRY(layout_, *std::move(created));
  return {};
}

Result<void> Supervisor::start_file_timers() {
  const std::string* enabled = job_.environment.find("TORCHELASTIC_ENABLE_FILE_TIMER");
  if (enabled == nullptr || *enabled != "1") return {};
  const std::string* path = job_.environment.find("TORCHELASTIC_TIMER_FILE");
  MUSTER_TRY(timers_, FileTimers::open(loop_, path != nullptr ? *path : default_timer_file(),
                                       [this](const TimerRequest& timer) { timer_expired(timer); }));
  return {};
}

void Supervisor::timer_expired(const TimerRequest& timer) {
  const Worker* worker = crew_ ? crew_->owner_of(timer.pid) : nullptr;
  if (worker == nullptr) return;  // anybody may write into the pipe: only the job's own processes are signalled
  voice_.timer_expired(worker->placement.rank, timer.pid, timer.scope, timer.signal);
  ::kill(timer.pid, timer.signal);
}

int Supervisor::run() {
  if (auto prepared = prepare(); !prepared) prepare_error_ = prepared.error();
  director_ =
      job_.membership ? make_member_node(*this, job_, *context_.link) : make_one_node(*this, job_, context_.warden_pid);
  if (prepare_error_) {
    int code = conclude_now();
    if (uplink_) {
      uplink_->give_up();
      wait_for_console();  // for ourselves
    }
    console_.flush(Deadline::in(kFlushTime));
    return code;
  }
  director_->begin();
  if (state_ != State::kDraining) loop_.run();  // it may have ended before it began
  const int code = conclude();
  if (left_ == 0) director_->all_is_gone();
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

// --- A round begins ---------------------------------------------------------------------------------------------

Result<uint16_t> Supervisor::open_store(const StoreAccess& access) {
  store_.reset();  // a fixed port is free again before it is bound
  RoundStore::Options options{
      .host = job_.store_host, .port = job_.master_port, .accept_peer = only_members(access.members, console_.log())};
  if (job_.membership) {
    options.ports = job_.membership->ports;
    options.listens = !job_.membership->store_on_coordinator_port;
  }
  auto opened = RoundStore::open(loop_, console_.log(), options);
  // Everybody is told the port by the launcher, so any will do.
  const bool any_will_do = options.port != 0 && job_.membership && job_.membership->output_to_launcher;
  if (!opened && any_will_do && opened.error().kind == ErrorKind::kUsage) {
    console_.log().warn("--master-port: {}; taking a free one", opened.error().message);
    options.port = 0;
    opened = RoundStore::open(loop_, console_.log(), options);
  }
  if (!opened) return std::move(opened).error();
  store_.emplace(*std::move(opened));
  if (!options.listens && companion_)
    companion_->serve_store([this](Fd socket, const net::Address& peer, std::string_view first_bytes) {
      if (store_) store_->adopt(std::move(socket), peer, first_bytes);
    });
  return store_->port();
}

Result<void> Supervisor::join_job(const std::string& id) {
  if (companion_) companion_->joined();
  if (!layout_->is_shared()) return {};
  struct Joined {
    output::LogLayout layout;
    Result<void> result;
  };
  auto joined = call_with_deadline<Joined>(Deadline::in(disk_patience()), [layout = *layout_, id]() mutable {
    auto result = layout.join_job(id);
    return Joined{std::move(layout), std::move(result)};
  });
  if (!joined) {
    console_.log().warn("{}", go_on_without_logs(job_.output.log_dir));
    return {};
  }
  *layout_ = std::move(joined->layout);
  return std::move(joined->result);
}

std::string Supervisor::go_on_without_logs(const std::string& directory) {
  layout_->disable();
  return fmt::format("no log files from now on: {} is on a file system that does not respond", directory);
}

void Supervisor::start_round(const job::Round& round) {
  state_ = State::kStarting;
  start_error_.reset();
  spawning_ = true;
  if (auto started = try_start_round(round); !started) start_error_ = started.error();
  spawning_ = false;
  if (start_error_) {
    stop_workers(SIGKILL, Duration(0));
  } else if (state_ == State::kStarting) {
    state_ = State::kRunning;
    director_->round_started();
  }
  if (!crew_ || crew_->running() == 0) loop_.defer([this] { end_round(); });
}

Result<void> Supervisor::try_start_round(const job::Round& round) {
  TimePoint begin = Clock::now();
  if (timers_) timers_->clear();
  end_kept_children();
  crew_.reset();  // whatever fails now is not the last round's
  MUSTER_TRY(std::string note, make_attempt(round));
  if (!note.empty()) console_.log().warn("{}", note);
  crew_ = std::make_unique<Crew>(job_, *layout_, *output_, round, timers_ ? timers_->path() : std::string());
  stopper_.emplace(loop_, voice_, *crew_, [this](Worker& worker) { worker_is_gone(worker); });
  events_->ranks_assigned(Clock::now() - begin, round);
  // For all log files of the round together: the coordinator's Pings wait meanwhile.
  const TimePoint files_until = round.lease == Duration::zero() ? TimePoint::max() : Clock::now() + round.lease / 2;
  for (int i = 0; i < job_.workers; ++i) {
    take_signals();
    if (state_ != State::kStarting) break;
    if (context_.link != nullptr) context_.link->pulse(Clock::now());
    output_->set_patience(std::clamp(files_until - Clock::now(), Duration::zero(), disk_patience()));
    MUSTER_TRY(Worker * worker, crew_->start_next(cpus_.empty() ? std::vector<int>() : cpus_[static_cast<size_t>(i)]));
    loop_.watch(worker->child.pidfd.get(), EPOLLIN, [this, worker](uint32_t) { worker_may_have_ended(*worker); });
    events_->worker_started(worker->placement, worker->child.pid, round.restarts);
  }
  watch_memory();
  return {};
}

// The directories of the round's log files. A thread makes them in a copy of the layout, which may outlive us.
Result<std::string> Supervisor::make_attempt(const job::Round& round) {
  struct Made {
    output::LogLayout layout;
    Result<std::string> note;
  };
  auto made = call_with_deadline<Made>(
      Deadline::in(disk_patience()),
      [layout = *layout_, number = round.number, workers = job_.workers, first = round.first_rank]() mutable {
        auto note = layout.make_attempt(number, workers, first);
        return Made{std::move(layout), std::move(note)};
      });
  if (!made) return go_on_without_logs(layout_->run_dir());
  *layout_ = std::move(made->layout);
  return std::move(made->note);
}

// The warden takes an agent that does nothing for a lease for one that hangs.
Duration Supervisor::disk_patience() const {
  if (!job_.membership) return kDirectoryTime;
  return std::clamp((context_.link->lease_until() - Clock::now()) / 2, kLeastDirectoryTime, kDirectoryTime);
}

// --- Signals ----------------------------------------------------------------------------------------------------

void Supervisor::take_signals() {
  while (auto received = signals_->next()) {
    if (received->signal == SIGCHLD) {
      reap_orphans();
    } else if (!echoes_.is_echo(received->signal, received->sender == context_.warden_pid, Clock::now())) {
      take_signal(received->signal);
    }
  }
}

void Supervisor::take_signal(int signal) {
  size_t stops_before = stop_signals_.size();
  act_on(signal);
  // Whoever reads the console is not waited for any longer.
  if (state_ == State::kDraining && stop_signals_.size() > stops_before) loop_.stop();
}

void Supervisor::act_on(int signal) {
  switch (job::meaning_of(signal, job_.signals_to_handle, stop_signals_)) {
    case job::SignalMeaning::kStop:
      stop_signals_.push_back(signal);
      stop_by_signal(signal);
      break;
    case job::SignalMeaning::kKill:
      stop_signals_.push_back(signal);
      if (stopper_) stopper_->kill_now();
      if (director_) director_->kill_asked(signal);
      break;
    case job::SignalMeaning::kPassOn:
      if (stopping_by_signal()) stop_signals_.push_back(signal);
      if (crew_) crew_->pass_on(signal);
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
      if (crew_) crew_->signal_all(signal);
      break;
    case job::SignalMeaning::kIgnore:
      break;
  }
}

void Supervisor::stop_by_signal(int signal) {
  const bool first = stop_signals_.size() == 1;
  if (state_ != State::kDraining) {
    voice_.signal_received(signal, crew_ ? crew_->running() : 0, job::grace_after_signal(job_));
    if (state_ != State::kIdle) stop_workers(signal, job::grace_after_signal(job_));
  }
  if (first && director_) director_->stop_asked(signal);
}

// Orphans of our workers are our children: whoever of them ends is collected here.
void Supervisor::reap_orphans() {
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    if (Worker* worker = crew_ ? crew_->find(info.si_pid) : nullptr) {
      worker_may_have_ended(*worker);
      if (worker->running) return;
    } else {
      ::waitpid(info.si_pid, nullptr, WNOHANG);
    }
  }
}

void Supervisor::suspend() {
  suspended_ = true;
  if (crew_) crew_->signal_all(SIGTSTP);
  loop_.cancel(suspend_timer_);
  suspend_timer_ = loop_.call_after(kSuspendDelay, [this] {
    if (crew_) crew_->signal_all(SIGSTOP);
    ::raise(SIGSTOP);  // the warden follows when it sees this
  });
}

// SIGCONT also comes without a suspend(): what others have stopped is not ours to continue.
void Supervisor::resume() {
  loop_.cancel(suspend_timer_);
  if (std::exchange(suspended_, false) && crew_) crew_->signal_all(SIGCONT);
}

// --- Workers end ------------------------------------------------------------------------------------------------

void Supervisor::worker_may_have_ended(Worker& worker) {
  if (worker.running && crew_->collect(worker)) worker_is_gone(worker);
}

void Supervisor::worker_is_gone(Worker& worker) {
  loop_.unwatch(worker.child.pidfd.get());
  worker.child.pidfd.reset();
  if (!worker.status.success() && state_ != State::kStopping) {
    stop_workers(SIGTERM, job::grace_after_failure(job_));
    director_->worker_failed(worker);
  }
  sweep_soon();
  if (crew_->running() == 0 && !spawning_) loop_.defer([this] { end_round(); });
}

// While others run on, or take their time to stop. When the round ends, its end sweeps. There is one timer for all, so
// that many that end one by one cannot put it off.
void Supervisor::sweep_soon() {
  if (sweep_timer_ != 0) return;
  sweep_timer_ = loop_.call_after(kSweepDelay, [this] {
    sweep_timer_ = 0;
    if (crew_->running() == 0) return;
    const TimePoint now = Clock::now();
    if (!keeps_children()) tell_left_running(now - kLeaveTime, Deadline::in(Duration(0)));
    if (crew_->sweep(now - kLeaveTime, now - kSweepDelay, keeps_children(), Deadline::in(kSweepTime))) sweep_soon();
  });
}

// Only as long as the round goes well.
bool Supervisor::keeps_children() const { return job_.keep_children && state_ != State::kStopping && !start_error_; }

void Supervisor::tell_left_running(TimePoint ended_by, Deadline deadline) {
  if (job_.container || state_ == State::kStopping) return;
  for (const Crew::LeftRunning& left : crew_->left_running(ended_by, deadline))
    voice_.ending_children(left.rank, left.pids);
}

void Supervisor::watch_memory() {
  crew_->read_memory_counters();
  memory_timer_ = loop_.call_after(kMemoryPeriod, [this] { watch_memory(); });
}

void Supervisor::stop_workers(int signal, Duration grace) {
  state_ = State::kStopping;
  if (!crew_ || crew_->running() == 0) return;
  output_->catch_up();  // an error told before the stop is not the stop's doing
  stopper_->ask(signal, grace);
}

// The workers of this node have all exited with 0, and the round has failed on another one.
void Supervisor::end_kept_children() {
  if (!crew_ || !job_.keep_children) return;
  left_ = crew_->end_all(Deadline::in(kEndAllTime));
  voice_.left_behind(left_);
}

void Supervisor::stop_round(int signal, Duration grace) {
  if (state_ != State::kStarting && state_ != State::kRunning && state_ != State::kStopping) return;
  stop_workers(signal, grace);
}

// --- A round ends -----------------------------------------------------------------------------------------------

void Supervisor::end_round() {
  if (state_ == State::kIdle || state_ == State::kDraining) return;
  stopper_.reset();
  for (auto timer : {sweep_timer_, suspend_timer_, memory_timer_}) loop_.cancel(timer);
  sweep_timer_ = 0;
  if (crew_ && !keeps_children()) {
    tell_left_running(TimePoint::max(), Deadline::in(kLeaveTime));
    left_ = crew_->end_all(Deadline::in(kEndAllTime));
    voice_.left_behind(left_);
  }
  terminal_.restore();
  state_ = State::kIdle;
  director_->round_ended(start_error_);
}

// --- The end ----------------------------------------------------------------------------------------------------

void Supervisor::finish() {
  const bool nothing_runs = state_ == State::kIdle && left_ == 0;
  if (nothing_runs && context_.link != nullptr) context_.link->end_lease();
  state_ = State::kDraining;
  store_.reset();
  loop_.stop();
}

int Supervisor::conclude() {
  wait_for_files();
  wait_for_console();
  console_.say_what_stdout_lost();
  tell_logs();
  int code = conclude_now();
  wait_for_console();
  if (uplink_) {
    uplink_->end();
    wait_for_console();
  }
  return code;
}

// One node speaks for all of a job: that of rank 0.
void Supervisor::tell_logs() {
  if (job_.flavor != job::Flavor::kMuster || job_.output.log_dir.empty() || layout_->disabled()) return;
  if (!crew_ || crew_->round().first_rank != 0) return;
  // If the file system does not respond, nothing is known to be missing.
  auto there = call_with_deadline<bool>(Deadline::in(kLastLookTime), [path = layout_->run_dir()] {
    return ::access(path.c_str(), F_OK) == 0 || errno != ENOENT;
  });
  if (!there.value_or(true))
    return console_.log().warn("logs: none, {} was removed during the run", layout_->run_dir());
  console_.log().info("logs: {}{}", layout_->run_dir(), job_.membership ? " on every node" : "");
}

int Supervisor::conclude_now() {
  Conclusion conclusion(job_, console_, events_ ? &*events_ : nullptr, layout_ ? &*layout_ : nullptr,
                        director_->count());
  int code = director_->conclude(conclusion, prepare_error_);
  if (companion_) companion_->finish(Deadline::in(kLastWordTime));
  return code;
}

// A slow disk may take its time; one that does nothing is left.
void Supervisor::wait_for_files() {
  if (!output_) return;
  output_->close_filtered();
  output_->on_files_idle([this] { loop_.stop(); });
  while (!output_->files_idle()) {
    const std::string stuck = output_->stuck_file(kFlushTime);
    if (!stuck.empty())
      return console_.log().warn("log files are not complete: {} is on a file system that does not respond", stuck);
    loop_.run_until(Deadline::in(kFilePeriod));
  }
}

// A slow reader may take its time, unless a signal has asked us to end; a further signal ends the wait.
void Supervisor::wait_for_console() {
  size_t signals = stop_signals_.size();
  Deadline deadline = Deadline::at(stopping_by_signal() ? Clock::now() + kFlushTime : TimePoint::max());
  auto idle = [this] {
    if (!console_.idle_or_stuck(kFlushTime)) return false;
    if (uplink_) uplink_->flush();
    return !uplink_ || uplink_->idle();
  };
  console_.on_idle([this] { loop_.stop(); });
  if (uplink_) uplink_->on_idle([this] { loop_.stop(); });
  while (!idle() && stop_signals_.size() == signals && !deadline.passed())
    loop_.run_until(Deadline::at(std::min(deadline.time(), Clock::now() + kFilePeriod)));
}

}  // namespace

int run_job(const job::JobSpec& job, const AgentContext& context) {
  process::prefer_short_turns();
  const int code = Supervisor(job, context).run();
  remove_script(job.command);
  return code;
}

}  // namespace muster::agent
