#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/net/event_loop.h"
#include "muster/rendezvous/channel.h"
#include "muster/rendezvous/membership.h"
#include "muster/rendezvous/protocol.h"

namespace muster::rendezvous {

inline constexpr Duration kBeatPeriod = std::chrono::milliseconds(500);

// The control connection's own liveness: one Ping per node and period, unless the last one has not been answered.
constexpr Duration ping_period(Duration lease) { return lease / 4; }
// Channel::limit_silence() for it: later than the decision that it is lost, for what is sent when nothing is decided any
// more.
constexpr Duration longest_silence(Duration lease) { return lease + 2 * fence_margin(lease); }

// --- the warden's side --------------------------------------------------------------------------------------------

// Until when a node may run workers, by the warden's own clock. Pure. The lease ends `length` after the sending of the
// last beat that was echoed, whatever happened since: a pause of this process does not lengthen it.
//   holding ── the lease is over, and this process ran all the time ──▶ expired: kill everything
//   holding ── the lease is over, and this process stood still since that beat was sent (its timer came late by a third
//              of the lease, 1 s at least) ──▶ asking: the workers are stopped (SIGSTOP)
//   asking  ── an echo that renews the lease: the round stands ──▶ holding: the workers go on
//   asking  ── no such echo for `length` since this process woke up ──▶ expired
//   any     ── an echo: the job went on without this node ──▶ expired
class Lease {
 public:
  enum class State { kHolding, kAsking, kExpired };
  // `since`: when the coordinator was asked to take the node.
  Lease(Duration length, TimePoint since, TimePoint now);

  // Call at least every kBeatPeriod; tells by itself that it was called late.
  State tick(TimePoint now);
  State echoed(TimePoint sent, bool stands, TimePoint now);
  State state() const { return state_; }
  TimePoint until() const { return until_; }  // the end of the lease; asking: it has passed
  TimePoint next_change() const;              // unless an echo comes: the end of the lease, or of the asking
  // "no word from the coordinator for 10.2 s", "the job went on without this node after a pause of 31 s"
  std::string reason(TimePoint now) const;

 private:
  void notice_pause(TimePoint now);
  State settle(TimePoint now);

  Duration length_;
  TimePoint until_, last_tick_, last_echo_;
  TimePoint woke_{};  // from the last pause
  Duration pause_{};  // since the last beat that was echoed
  State state_ = State::kHolding;
  bool disowned_ = false;
};

// --- the agent's side ---------------------------------------------------------------------------------------------

// The agent holds the lease too, by what it sees of its warden: either of them enforces it. Pure.
//   run  ── the warden is stopped (SIGSTOP), or the lease is over ──▶ hold: the workers are stopped
//   hold ── the warden runs, and the lease holds ──▶ run: they go on
//   hold ── the warden runs, and has not renewed the lease for a lease's length ──▶ end: kill everything
class LeaseWatch {
 public:
  enum class Verdict { kRun, kHold, kEnd };
  struct Sight {
    bool warden_stopped = false;
    TimePoint until = TimePoint::max();  // of the lease, as the warden has told; without a lease: never
    Duration lease{};
  };
  // Call at least every kBeatPeriod. A late call is a pause of this process, and gives the warden time again.
  Verdict look(TimePoint now, const Sight& sight);

 private:
  TimePoint last_look_ = TimePoint::min();
  std::optional<TimePoint> over_since_;  // as long as the lease is over and the warden runs
};

// --- the coordinator's side ---------------------------------------------------------------------------------------

// Answers beats on a thread and loop of its own, so that a coordinator that is busy with output or a slow disk neither
// misses a beat nor delays an echo. What it heard is read by the coordinator's thread without a lock.
class HeartbeatServer {
 public:
  HeartbeatServer();
  ~HeartbeatServer();  // joins the thread

  // Why there is no thread, and no beat is answered. None: there is one.
  const std::optional<Error>& failure() const;

  // From the coordinator's thread. The channels are open and detached (Channel::detach()).
  void adopt(std::vector<std::unique_ptr<Channel>> channels);
  void admit(NodeId node);  // its beats are echoed with stands = true; before it is told its number
  // Its beats are echoed with stands = false, as are those of numbers that no node has. What heard() says from now on
  // includes every beat that was echoed with stands = true: forget a node first, then ask when its lease ends.
  void forget(NodeId node);
  // When a beat of that node came last; nothing when none came.
  std::optional<TimePoint> heard(NodeId node) const;
  // What became of the nodes' connections since the last call, in order. Readable: there is something.
  struct News {
    NodeId node = 0;
    LinkEnd end = LinkEnd::kNone;  // kNone: its warden has connected again
  };
  int news_fd() const;
  std::vector<News> take_news();
  // Steady clock of the node minus ours, best estimate so far.
  std::optional<Duration> clock_offset(NodeId node) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::rendezvous
