#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "muster/agent/crew.h"
#include "muster/agent/file_timers.h"
#include "muster/agent/log_directories.h"
#include "muster/agent/stopper.h"
#include "muster/agent/warden_link.h"
#include "muster/net/event_loop.h"
#include "muster/output/output.h"
#include "muster/report/events.h"
#include "muster/report/voice.h"

namespace muster::agent {

// The workers of this node, round after round: starts them, watches them, stops them, and ends what they leave running.
// When a round starts, and what follows when it has ended, is not decided here.
//
//   idle     ── start() ────────────────────────────────────▶ starting
//   starting ── all workers spawned ────────────────────────▶ running     Handlers::started
//   starting ── a spawn failed, or stop() ──────────────────▶ stopping
//   running  ── a worker failed (Handlers::failed), stop() ─▶ stopping
//   running  ── the last worker exited with 0 ──────────────▶ idle        Handlers::ended
//   stopping ── all gone ───────────────────────────────────▶ idle        Handlers::ended
//
// A round ends only when every process that its workers started is gone too, unless they are kept (--keep-children).
class RoundRunner {
 public:
  struct Handlers {
    std::function<void()> take_signals;  // between two workers that are started: a signal may stop the round
    std::function<void()> started;
    std::function<void(const Worker&)> failed;                     // at once; the others are being stopped already
    std::function<void(const std::optional<Error>& error)> ended;  // `error`: not all could be started
  };
  // All of it must outlive the runner.
  struct Parts {
    net::EventLoop& loop;
    const job::JobSpec& job;
    LogDirectories& logs;
    output::Output& output;
    report::Voice& voice;
    report::Events& events;
    Log& log;
    WardenLink* link = nullptr;               // to the warden, which is told that the agent is alive
    FileTimers* timers = nullptr;             // torch's file timers; null: none asked for
    std::vector<std::vector<int>> cpus = {};  // of each worker; empty: not bound
  };
  RoundRunner(Parts parts, Handlers handlers) : parts_(std::move(parts)), handlers_(std::move(handlers)) {}
  ~RoundRunner();

  void start(const job::Round& round);
  // Asks the workers that run, and kills them after the grace. Does nothing if no round goes on.
  void stop(int signal, Duration grace);
  // Kills those that were asked.
  void kill_now();
  // A child of this process may have ended.
  void reap();

  // How long the file system of the log files is waited for now.
  Duration disk_patience() const;
  bool goes_on() const { return state_ != State::kIdle; }
  Crew* crew() { return crew_.get(); }   // of the current or last round; null before the first
  size_t left() const { return left_; }  // how many processes of the last round could not be ended

 private:
  enum class State { kIdle, kStarting, kRunning, kStopping };

  Result<void> try_start(const job::Round& round);
  void worker_may_have_ended(Worker& worker);
  void worker_is_gone(Worker& worker);
  void sweep_soon();
  bool keeps_children() const;
  void tell_left_running(TimePoint ended_by, Deadline deadline);
  void end_everything();
  void watch_memory();
  void end();

  Parts parts_;
  Handlers handlers_;
  State state_ = State::kIdle;
  bool spawning_ = false;  // start() looks itself whether all have ended
  std::unique_ptr<Crew> crew_;
  std::optional<Stopper> stopper_;    // of that crew, until the round ends
  std::optional<Error> start_error_;  // of the round
  size_t left_ = 0;
  net::EventLoop::TimerId sweep_timer_ = 0;
  net::EventLoop::TimerId memory_timer_ = 0;
};

}  // namespace muster::agent
