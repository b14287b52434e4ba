#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "muster/rendezvous/heartbeat.h"
#include "muster/rendezvous/membership.h"
#include "muster/rendezvous/words.h"

// A whole cluster in virtual time around decide(): agents with wardens and leases, a network that delays, holds and
// cuts, hosts that freeze, lose power and come back, workers that fail and succeed. Everything follows from the seed.
// What must never happen is checked at every step.
namespace muster::rendezvous::sim {

inline constexpr int kMostNodes = 32;

// What a schedule came to; `violation` is empty when every rule held.
struct Outcome {
  std::string violation;
  std::vector<std::string> trace;  // only if asked for
  job::Ending ending = job::Ending::kMusterFailed;
  int hosts = 0, rounds = 0, restarts = 0, losses = 0;
  int excused = 0;         // rounds whose failed worker was the first to go of a node that was lost
  bool disturbed = false;  // a fault was injected or a worker was to fail
};

// What keeps a rank from running twice and a job from hanging. A test switches one off, and the simulator must then find
// what it prevents.
struct Rules {
  bool fence_lost_nodes = true;          // off: the workers of a lost node are taken for ended at once
  bool doubt_closed_connections = true;  // off: a node whose control connection ended, in whatever way, has ended
  bool pings = true;
  bool excuse_own_pauses = true;
  bool fence_waits_for_nobody = true;  // a fence kills the workers of an agent that does not die
  bool agent_holds_lease = true;       // the workers of a warden that stands still are stopped by the agent
};
Outcome simulate(uint64_t seed, bool trace = false, const Rules& rules = {});

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  int between(int low, int high);  // both included
  bool chance(double probability);
  Duration time(double low, double high);  // seconds

 private:
  uint64_t state_;
};

using Step = std::function<void()>;

// One direction of one connection: in order, and what is sent into a cut arrives once it is healed.
struct Pipe {
  TimePoint last;  // arrival of what was sent last
  std::vector<Step> held;
};

struct Host {
  int index = 0;
  std::string name;
  bool cut_up = false, cut_down = false;  // towards the coordinator, from it
  int cuts = 0;                           // how often that changed
  std::optional<TimePoint> frozen_since;
  std::vector<Step> inbox;                                               // what happened to it while it was frozen
  bool occupied = false;                                                 // a life was started that has not ended
  enum class Warden { kRuns, kStopped, kHangs } warden = Warden::kRuns;  // kHangs: the agent cannot see it
  std::vector<Step> warden_inbox;
};

// One agent with its warden and workers.
struct Life {
  explicit Life(Host* where) : host(where) {}
  Host* host;
  Join join;
  NodeId id = 0;  // as the coordinator gave it
  bool alive = true;
  TimePoint joined_at;
  std::optional<Lease> lease;  // once it is welcome
  bool stopped = false;        // SIGSTOP, from when the lease asks until it holds again
  LeaseWatch watch;            // the agent's
  TimePoint published;         // the end of the lease, as the agent knows it
  bool held = false;           // SIGSTOP, by the agent
  bool undying = false;        // the agent hangs in the kernel when it is killed
  // Workers of one round; `failed`: one of them has, the others run on.
  bool starting = false, workers = false, failed = false;
  int round = -1, rank = 0;
  // The coordinator's end.
  bool connected = false;
  bool control_lost = false;  // nothing that is sent on the control connection arrives any more, in either direction
  TimePoint heard, pinged;
  Pipe up, down, beats, echoes;
};

class World {
 public:
  World(uint64_t seed, bool trace, const Rules& rules);
  Outcome run();

 private:
  struct Event {
    TimePoint time;
    uint64_t sequence;
    Step step;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : sequence > other.sequence;
    }
  };
  enum class Direction { kUp, kDown };
  struct RoundTruth {
    size_t size = 0;
    int restarts = 0;
    std::set<int> done;   // group ranks whose workers have all ended with 0
    bool failed = false;  // a worker failed, as the coordinator knew before it stopped the round
    bool lost = false;    // a member was gone before it had reported its end, or all of the failed worker's was killed
    bool stopped = false;
    bool no_store = false;
    TimePoint stopped_at;
    const Life* first_failed = nullptr;  // as the coordinator knows
    bool first_failed_gone = false;
    bool killed = false;  // judged to have failed by SIGKILL
  };

  // simulator.cpp: time, network, what is checked
  void at(TimePoint time, Step step);
  void after(Duration delay, Step step) { at(now_ + delay, std::move(step)); }
  void send(Life& life, Pipe& pipe, Direction direction, Step step);
  void arrive(Life& life, Direction direction, const Step& step);
  void flush(Host& host);
  bool defer(Life& life, Step step);         // frozen: later
  bool defer_warden(Life& life, Step step);  // the same for what the warden does
  void say(const std::string& what);
  void violate(const std::string& what);
  bool running(const Life& life) const;
  void check_running(const Life& life);

  // simulated_agent.cpp
  void start_life(Host& host);
  void welcome(Life& life, NodeId id);
  void beat(Life& life);
  void watch_lease(Life& life);
  void agent_looks(Life& life);
  void agent_looks_again(Life& life);
  void act_on(Life& life, Lease::State state);
  void echo(Life& life, TimePoint sent, bool stands);
  void told_to_start(Life& life, const job::Round& start);
  void start_workers(Life& life, int round);
  void worker_ends(Life& life, int round, bool succeeds);
  void stop_workers(Life& life, int round);
  void node_ended(Life& life, bool succeeded);
  void workers_vanish(Life& life);
  void end_life(Life& life, const char* why);
  void thaw(Host& host);

  // simulated_coordinator.cpp
  void on_join(Life& life);
  void on_beat(Life& life, TimePoint sent);
  void on_closed(Life& life, LinkEnd end);
  void on_heartbeat_ended(Life& life, LinkEnd end);
  void ping_all();
  void on_pong(Life& life);
  bool ended_by_pause(const Life& life) const;
  void on_worker_failed(Life& life, int round);
  void on_round_ended(Life& life, int round, bool succeeded);
  void on_store_opened(Life& life, int round, bool ok);
  void note_failure(const Life& life, int round);
  void excuse(RoundTruth& truth);
  void gone(Life& life, LinkEnd control, const Loss& loss);
  void turn();
  void decide_all();
  void apply(const Decision& decision);
  void open_round(const Decision& decision);
  void check_first_members(const std::vector<NodeId>& members);
  void check_ranks(const std::vector<job::Round>& starts);
  void start_round();
  void stop_round(const Decision& decision);
  void judge_round();
  void end_job(const Decision& decision);
  void check_waiting(const Decision& decision);
  void thaw_coordinator();

  // simulated_faults.cpp
  void make_options();
  void plan();
  void plan_faults();
  void fault();
  void cut(Host& host, bool up, bool down, Duration time);
  void freeze(Host& host, Duration time);
  void freeze_coordinator(Duration time);
  void power_off(Host& host);
  void kill_agent(Host& host);
  void warden_stands_still(Host& host, Duration time);
  void agent_will_not_die(Host& host);
  void connection_breaks(Host& host);
  void close_from_elsewhere(Host& host, Duration time);
  void lose_control_connection(Host& host);
  void come_back(Host& host);
  void watch_loss(Life& life);
  Life* life_on(Host& host);

  // the world
  Random random_;
  bool tracing_;
  Rules rules_;
  TimePoint start_, now_;
  uint64_t sequence_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::deque<Host> hosts_;
  std::deque<Life> lives_;
  Outcome outcome_;

  // the coordinator
  MembershipOptions options_;
  State state_;
  std::map<NodeId, Life*> by_id_;
  std::optional<TimePoint> coordinator_frozen_;
  TimePoint coordinator_thawed_, coordinator_paused_;
  std::optional<TimePoint> long_pause_ended_;  // of the last one in which leases may have ended
  std::map<std::string, int> own_losses_;      // by host: those that are not due to a pause of the coordinator
  std::vector<Step> coordinator_inbox_;
  uint64_t timer_ = 0;
  bool turn_due_ = false, over_ = false;
  std::map<int, RoundTruth> truth_;
  std::vector<Failure> judged_;

  // the schedule
  double fail_chance_ = 0, store_fail_chance_ = 0;
  double slow_reap_chance_ = 0;
  Duration longest_work_{};
  bool lazy_turns_ = false;
  bool launcher_restarts_ = false;
  std::optional<int> signal_;
};

}  // namespace muster::rendezvous::sim
