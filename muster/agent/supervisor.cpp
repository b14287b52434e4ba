#include "muster/agent/supervisor.h"

#include <sys/wait.h>

#include <csignal>
#include <memory>

#include "muster/agent/conclusion.h"
#include "muster/agent/console.h"
#include "muster/agent/crew.h"
#include "muster/agent/events.h"
#include "muster/agent/file_timers.h"
#include "muster/agent/log_layout.h"
#include "muster/agent/output.h"
#include "muster/agent/report.h"
#include "muster/agent/restart_policy.h"
#include "muster/agent/round_store.h"
#include "muster/agent/stop_policy.h"
#include "muster/agent/stopper.h"
#include "muster/agent/voice.h"
#include "muster/agent/warden.h"
#include "muster/agent/worker_cpus.h"
#include "muster/base/random.h"
#include "muster/net/address.h"
#include "muster/process/signals.h"

namespace muster::agent {
namespace {

// For what a worker left running, while others still run: those that end at the same moment are swept together.
constexpr auto kSweepDelay = std::chrono::milliseconds(100);
constexpr auto kSweepTime = std::chrono::milliseconds(500);
constexpr auto kEndAllTime = std::chrono::seconds(10);
// Between SIGTSTP, which a worker may handle, and SIGSTOP, which it cannot (and without which a session of its own
// would not stop at all).
constexpr auto kSuspendDelay = std::chrono::milliseconds(50);
// How often the counters of memory kills are read.
constexpr auto kMemoryPeriod = std::chrono::seconds(10);
// For the reader of a console that belongs to a job that has been asked to end, or has not begun.
constexpr auto kFlushTime = std::chrono::seconds(5);

std::string random_job_id() {
  unsigned char bytes[8];
  fill_random(bytes);
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

class Supervisor {
 public:
  Supervisor(const JobSpec& job, int warden_pid, int warden_pidfd, ScratchNote& scratch)
      : job_(job),
        scratch_(scratch),
        warden_pid_(warden_pid),
        warden_pidfd_(warden_pidfd),
        console_(loop_, {.colour = wants_colour(job),
                         .torchrun_style = job.flavor != Flavor::kMuster,
                         .threshold = job.log_threshold}),
        voice_(console_, job.flavor) {}

  int run();

 private:
  enum class State { kStarting, kRunning, kStopping, kDraining };

  Result<void> prepare();
  Result<void> start_file_timers();
  void timer_expired(const TimerRequest& timer);
  void start_round();
  Result<void> try_start_round();

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
  void watch_memory();
  void stop_workers(int signal, Duration grace);
  void end_round();
  bool restart_after_failure();

  void drain();
  int conclude();
  int conclude_now();
  void wait_for_console();
  bool stopping_by_signal() const { return !stop_signals_.empty(); }

  const JobSpec& job_;
  ScratchNote& scratch_;
  int warden_pid_;
  int warden_pidfd_;
  net::EventLoop loop_;
  Console console_;
  Voice voice_;
  std::optional<process::SignalQueue> signals_;
  std::optional<Events> events_;
  std::optional<LogLayout> layout_;
  std::unique_ptr<Output> output_;
  std::unique_ptr<FileTimers> timers_;
  std::vector<std::vector<int>> cpus_;
  std::string job_id_ = random_job_id();

  State state_ = State::kStarting;
  bool spawning_ = false;  // whoever starts the workers looks itself whether all have ended
  int round_ = 0;
  int restarts_ = 0;
  std::optional<RoundStore> store_;
  std::unique_ptr<Crew> crew_;
  std::optional<Stopper> stopper_;  // of that crew, until the round ends
  std::optional<Error> start_error_;

  std::vector<int> stop_signals_;  // what we were asked with, in order
  EchoFilter echoes_;
  bool failed_first_ = false;  // a worker had failed before the first of them
  net::EventLoop::TimerId sweep_timer_ = 0;
  net::EventLoop::TimerId suspend_timer_ = 0;
  net::EventLoop::TimerId memory_timer_ = 0;

  std::vector<WorkerOutcome> outcomes_;
  Verdict verdict_;
};

Result<void> Supervisor::prepare() {
  MUSTER_TRY_VOID(check_environment(job_));
  std::vector<int> signals = forwarded_signals();
  signals.push_back(SIGCHLD);
  MUSTER_TRY(signals_, process::SignalQueue::open(signals));
  loop_.watch(signals_->fd(), EPOLLIN, [this](uint32_t) { take_signals(); });
  loop_.watch(warden_pidfd_, EPOLLIN,
              [this](uint32_t) { end_without_warden([this] { remove_empty_directories(scratch_.directory()); }); });
  MUSTER_TRY(cpus_, cpus_of_workers(job_));
  MUSTER_TRY(events_, Events::open(job_, console_));
  MUSTER_TRY(layout_, LogLayout::create(job_));
  scratch_.set(layout_->temporary_tree());
  output_ = std::make_unique<Output>(loop_, console_, job_, *layout_);
  return start_file_timers();
}

Result<void> Supervisor::start_file_timers() {
  const std::string* enabled = find_variable(job_.environment, "TORCHELASTIC_ENABLE_FILE_TIMER");
  if (enabled == nullptr || *enabled != "1") return {};
  const std::string* path = find_variable(job_.environment, "TORCHELASTIC_TIMER_FILE");
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
  if (auto prepared = prepare(); !prepared) {
    start_error_ = prepared.error();
    int code = conclude_now();
    console_.flush(Deadline::in(kFlushTime));
    return code;
  }
  start_round();
  loop_.run();
  return conclude();
}

// --- A round begins ---------------------------------------------------------------------------------------------

void Supervisor::start_round() {
  state_ = State::kStarting;
  spawning_ = true;
  if (auto started = try_start_round(); !started) start_error_ = started.error();
  spawning_ = false;
  if (start_error_) {
    stop_workers(SIGKILL, Duration(0));
  } else if (state_ == State::kStarting) {
    state_ = State::kRunning;
  }
  if (!crew_ || crew_->running() == 0) loop_.defer([this] { end_round(); });
}

Result<void> Supervisor::try_start_round() {
  TimePoint begin = Clock::now();
  store_.reset();  // a fixed port is free again before it is bound
  if (timers_) timers_->clear();
  MUSTER_TRY(store_, RoundStore::open(loop_, console_.log(), job_));
  events_->rendezvous(Clock::now() - begin, restarts_);
  MUSTER_TRY_VOID(layout_->make_attempt(round_, job_.workers));
  RoundInfo info{.round = round_,
                 .restart_count = restarts_,
                 .master_addr = job_.master_addr,
                 .master_port = store_->port(),
                 .error_file = {},
                 .timer_file = timers_ ? timers_->path() : std::string(),
                 .job = job_id_,
                 .host = net::hostname()};
  crew_ = std::make_unique<Crew>(job_, *layout_, *output_, std::move(info));
  stopper_.emplace(loop_, voice_, *crew_, [this](Worker& worker) { worker_is_gone(worker); });
  events_->ranks_assigned(Clock::now() - begin, restarts_);
  for (int i = 0; i < job_.workers; ++i) {
    take_signals();
    if (state_ != State::kStarting) break;
    MUSTER_TRY(Worker * worker, crew_->start_next(cpus_.empty() ? std::vector<int>() : cpus_[static_cast<size_t>(i)]));
    loop_.watch(worker->child.pidfd.get(), EPOLLIN, [this, worker](uint32_t) { worker_may_have_ended(*worker); });
    events_->worker_started(worker->placement, worker->child.pid, restarts_);
  }
  watch_memory();
  return {};
}

// --- Signals ----------------------------------------------------------------------------------------------------

void Supervisor::take_signals() {
  while (auto received = signals_->next()) {
    if (received->signal == SIGCHLD) {
      reap_orphans();
    } else if (!echoes_.is_echo(received->signal, received->sender == warden_pid_, Clock::now())) {
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
  switch (meaning_of(signal, job_.signals_to_handle, stop_signals_)) {
    case SignalMeaning::kStop:
      stop_signals_.push_back(signal);
      stop_by_signal(signal);
      break;
    case SignalMeaning::kKill:
      stop_signals_.push_back(signal);
      if (stopper_) stopper_->kill_now();
      break;
    case SignalMeaning::kPassOn:
      if (stopping_by_signal()) stop_signals_.push_back(signal);
      if (crew_) crew_->signal_all(signal);
      break;
    case SignalMeaning::kSuspend:
      suspend();
      break;
    case SignalMeaning::kResume:
      resume();
      break;
    case SignalMeaning::kResize:
      if (output_) output_->window_resized();
      if (crew_) crew_->signal_all(signal);
      break;
    case SignalMeaning::kIgnore:
      break;
  }
}

void Supervisor::stop_by_signal(int signal) {
  failed_first_ = crew_ && crew_->anyone_failed();
  if (state_ == State::kDraining) return;
  voice_.signal_received(signal, crew_ ? crew_->running() : 0, grace_after_signal(job_));
  stop_workers(signal, grace_after_signal(job_));
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
  if (crew_) crew_->signal_all(SIGTSTP);
  loop_.cancel(suspend_timer_);
  suspend_timer_ = loop_.call_after(kSuspendDelay, [this] {
    if (crew_) crew_->signal_all(SIGSTOP);
    ::raise(SIGSTOP);  // the warden follows when it sees this
  });
}

void Supervisor::resume() {
  loop_.cancel(suspend_timer_);
  if (crew_) crew_->signal_all(SIGCONT);
}

// --- Workers end ------------------------------------------------------------------------------------------------

void Supervisor::worker_may_have_ended(Worker& worker) {
  if (worker.running && crew_->collect(worker)) worker_is_gone(worker);
}

void Supervisor::worker_is_gone(Worker& worker) {
  loop_.unwatch(worker.child.pidfd.get());
  worker.child.pidfd.reset();
  if (!worker.status.success() && state_ != State::kStopping) stop_workers(SIGTERM, grace_after_failure(job_));
  sweep_soon();
  if (crew_->running() == 0 && !spawning_) loop_.defer([this] { end_round(); });
}

// While others run on, or take their time to stop. When the round ends, its end sweeps. Counted from the first that
// ended, so that many that end one by one cannot put it off.
void Supervisor::sweep_soon() {
  if (sweep_timer_ != 0) return;
  sweep_timer_ = loop_.call_after(kSweepDelay, [this] {
    sweep_timer_ = 0;
    if (crew_->running() > 0) crew_->sweep(Deadline::in(kSweepTime));
  });
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

// --- A round ends -----------------------------------------------------------------------------------------------

void Supervisor::end_round() {
  stopper_.reset();
  for (auto timer : {sweep_timer_, suspend_timer_, memory_timer_}) loop_.cancel(timer);
  sweep_timer_ = 0;
  if (crew_) voice_.left_behind(crew_->end_all(Deadline::in(kEndAllTime)));
  if (!start_error_ && crew_->anyone_failed() && restart_after_failure()) return start_round();
  drain();
}

bool Supervisor::restart_after_failure() {
  outcomes_ = crew_->outcomes(console_.log());
  verdict_ = judge(outcomes_);
  const WorkerOutcome& root = outcomes_[verdict_.root];
  if (!stopping_by_signal()) voice_.failed(root, job_.command.program);
  RestartDecision decision = decide_restart(restarts_, job_.max_restarts, stopping_by_signal());
  console_.log().debug("root cause: {}", verdict_.reason);
  if (!decision.restart) {
    console_.log().debug("no restart: {}", decision.reason);
    return false;
  }
  voice_.restarting(decision.reason, root);
  ++restarts_;
  ++round_;
  return true;
}

// --- The end ----------------------------------------------------------------------------------------------------

void Supervisor::drain() {
  state_ = State::kDraining;
  store_.reset();
  loop_.stop();
}

int Supervisor::conclude() {
  wait_for_console();
  console_.say_what_stdout_lost();
  int code = conclude_now();
  wait_for_console();
  return code;
}

int Supervisor::conclude_now() {
  Conclusion conclusion(job_, console_, events_ ? &*events_ : nullptr, layout_ ? &*layout_ : nullptr,
                        {.round = round_, .restarts = restarts_});
  if (start_error_) return conclusion.not_started(*start_error_);
  bool restarts_left = restarts_ < job_.max_restarts;
  switch (ending_of(crew_->anyone_failed(), stopping_by_signal(), failed_first_, restarts_left)) {
    case Ending::kSucceeded:
      return conclusion.succeeded(crew_->workers());
    case Ending::kFailed:
      return conclusion.failed(crew_->workers(), std::move(outcomes_), std::move(verdict_));
    case Ending::kSignalled:
      break;
  }
  return conclusion.signalled(stop_signals_.front(), warden_pid_, crew_->outcomes(console_.log()));
}

// A slow reader may take its time, unless a signal has asked us to end; a further signal ends the wait.
void Supervisor::wait_for_console() {
  size_t signals = stop_signals_.size();
  Deadline deadline = Deadline::at(stopping_by_signal() ? Clock::now() + kFlushTime : TimePoint::max());
  console_.on_idle([this] { loop_.stop(); });
  while (!console_.idle() && stop_signals_.size() == signals)
    if (!loop_.run_until(deadline)) return;
}

}  // namespace

int run_job(const JobSpec& job, int warden_pid, int warden_pidfd, ScratchNote& scratch) {
  return Supervisor(job, warden_pid, warden_pidfd, scratch).run();
}

}  // namespace muster::agent
