#include "muster/agent/round_runner.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>

#include "muster/job/stop_policy.h"

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
// How often the counters of memory kills are read.
constexpr auto kMemoryPeriod = std::chrono::seconds(10);

// For the file system of the log files to make directories, or to open the files of a worker; less if the lease is short.
constexpr Duration kDirectoryTime = std::chrono::seconds(3);
constexpr Duration kLeastDirectoryTime = std::chrono::milliseconds(500);

}  // namespace

RoundRunner::~RoundRunner() {
  for (auto timer : {sweep_timer_, memory_timer_}) parts_.loop.cancel(timer);
}

// --- A round begins -------------------------------------------------------------------------------------------------

void RoundRunner::start(const job::Round& round) {
  state_ = State::kStarting;
  start_error_.reset();
  spawning_ = true;
  if (auto started = try_start(round); !started) start_error_ = started.error();
  spawning_ = false;
  if (start_error_) {
    stop(SIGKILL, Duration(0));
  } else if (state_ == State::kStarting) {
    state_ = State::kRunning;
    handlers_.started();
  }
  if (!crew_ || crew_->running() == 0) parts_.loop.defer([this] { end(); });
}

Result<void> RoundRunner::try_start(const job::Round& round) {
  TimePoint begin = Clock::now();
  if (parts_.timers != nullptr) parts_.timers->clear();
  // The workers of this node had all exited with 0, and the last round has failed on another one.
  if (crew_ && parts_.job.keep_children) end_everything();
  crew_.reset();  // whatever fails now is not the last round's
  MUSTER_TRY_VOID(parts_.logs.make_attempt(round, parts_.job.workers, disk_patience(), parts_.log));
  crew_ = std::make_unique<Crew>(parts_.job, parts_.logs.layout(), parts_.output, round,
                                 parts_.timers != nullptr ? parts_.timers->path() : std::string());
  stopper_.emplace(parts_.loop, parts_.voice, *crew_, [this](Worker& worker) { worker_is_gone(worker); });
  parts_.events.ranks_assigned(Clock::now() - begin, round);
  // For all log files of the round together: the coordinator's Pings wait meanwhile.
  const TimePoint files_until = round.lease == Duration::zero() ? TimePoint::max() : Clock::now() + round.lease / 2;
  for (int i = 0; i < parts_.job.workers; ++i) {
    handlers_.take_signals();
    if (state_ != State::kStarting) break;
    if (parts_.link != nullptr) parts_.link->pulse(Clock::now());
    parts_.output.set_patience(std::clamp(files_until - Clock::now(), Duration::zero(), disk_patience()));
    const bool bound = !parts_.cpus.empty();
    MUSTER_TRY(Worker * worker, crew_->start_next(bound ? parts_.cpus[static_cast<size_t>(i)] : std::vector<int>()));
    parts_.loop.watch(worker->child.pidfd.get(), EPOLLIN, [this, worker](uint32_t) { worker_may_have_ended(*worker); });
    parts_.events.worker_started(worker->placement, worker->child.pid, round.restarts);
  }
  watch_memory();
  return {};
}

// The warden takes an agent that does nothing for a lease for one that hangs.
Duration RoundRunner::disk_patience() const {
  if (!parts_.job.membership) return kDirectoryTime;
  return std::clamp((parts_.link->lease_until() - Clock::now()) / 2, kLeastDirectoryTime, kDirectoryTime);
}

void RoundRunner::watch_memory() {
  crew_->read_memory_counters();
  memory_timer_ = parts_.loop.call_after(kMemoryPeriod, [this] { watch_memory(); });
}

// --- Workers end ----------------------------------------------------------------------------------------------------

// Orphans of our workers are our children: those that end are collected here.
void RoundRunner::reap() {
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

void RoundRunner::worker_may_have_ended(Worker& worker) {
  if (worker.running && crew_->collect(worker)) worker_is_gone(worker);
}

void RoundRunner::worker_is_gone(Worker& worker) {
  parts_.loop.unwatch(worker.child.pidfd.get());
  worker.child.pidfd.reset();
  if (!worker.status.success() && state_ != State::kStopping) {
    stop(SIGTERM, job::grace_after_failure(parts_.job));
    handlers_.failed(worker);
  }
  sweep_soon();
  if (crew_->running() == 0 && !spawning_) parts_.loop.defer([this] { end(); });
}

// While others run on, or take their time to stop. When the round ends, its end sweeps. There is one timer for all, so
// that many that end one by one cannot put it off.
void RoundRunner::sweep_soon() {
  if (sweep_timer_ != 0) return;
  sweep_timer_ = parts_.loop.call_after(kSweepDelay, [this] {
    sweep_timer_ = 0;
    if (crew_->running() == 0) return;
    const TimePoint now = Clock::now();
    if (!keeps_children()) tell_left_running(now - kLeaveTime, Deadline::in(Duration(0)));
    if (crew_->sweep(now - kLeaveTime, now - kSweepDelay, keeps_children(), Deadline::in(kSweepTime))) sweep_soon();
  });
}

// Only as long as the round goes well.
bool RoundRunner::keeps_children() const {
  return parts_.job.keep_children && state_ != State::kStopping && !start_error_;
}

void RoundRunner::tell_left_running(TimePoint ended_by, Deadline deadline) {
  if (parts_.job.container || state_ == State::kStopping) return;
  for (const Crew::LeftRunning& left : crew_->left_running(ended_by, deadline))
    parts_.voice.ending_children(left.rank, left.pids);
}

// --- The end of a round ---------------------------------------------------------------------------------------------

void RoundRunner::stop(int signal, Duration grace) {
  if (state_ == State::kIdle) return;
  state_ = State::kStopping;
  if (!crew_ || crew_->running() == 0) return;
  parts_.output.catch_up();  // an error told before the stop is not the stop's doing
  stopper_->ask(signal, grace);
}

void RoundRunner::kill_now() {
  if (stopper_) stopper_->kill_now();
}

void RoundRunner::end() {
  if (state_ == State::kIdle) return;
  stopper_.reset();
  for (auto timer : {sweep_timer_, memory_timer_}) parts_.loop.cancel(timer);
  sweep_timer_ = 0;
  if (crew_ && !keeps_children()) {
    tell_left_running(TimePoint::max(), Deadline::in(kLeaveTime));
    end_everything();
  }
  state_ = State::kIdle;
  handlers_.ended(start_error_);
}

void RoundRunner::end_everything() {
  left_ = crew_->end_all(Deadline::in(kEndAllTime));
  parts_.voice.left_behind(left_);
}

}  // namespace muster::agent
