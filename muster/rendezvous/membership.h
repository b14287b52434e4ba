#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/rendezvous/protocol.h"

namespace muster::rendezvous {

enum class Grow { kNow, kRestart, kNever };

struct MembershipOptions {
  int min_nodes = 1;
  int max_nodes = 1;
  bool fixed_ranks = false;  // static: a node's rank is the one it names
  int expected = 0;          // hosts that a launcher is starting; 0: nobody knows who will come
  Duration join_timeout = std::chrono::seconds(600);
  Duration last_call = std::chrono::seconds(3);  // with unknown nodes: wait so long for more than min_nodes
  Duration lease = std::chrono::seconds(10);
  Grow grow = Grow::kNow;
  int max_restarts = 0;
  int crash_loop = 3;                                   // 0: off
  Duration crash_loop_time = std::chrono::seconds(10);  // "within seconds of its start"
  int losses_allowed = 1;                               // of one host in loss_window; one more and it is not readmitted
  Duration loss_window = std::chrono::minutes(10);
};

// After a closed connection: one heartbeat, for the agent to stop its workers. After silence: lease + this.
inline constexpr Duration kFenceMargin = std::chrono::milliseconds(500);

// What one node does in the current round.
enum class Part {
  kIdle,    // has no worker: waits for a round, or is a spare
  kRuns,    // was told to start
  kStops,   // was told to stop; its workers may still run
  kDone,    // all its workers ended with 0 and are reaped
  kFailed,  // all are reaped, not all ended with 0
};

struct Node {
  NodeId id = 0;
  Join join;
  Part part = Part::kIdle;
  TimePoint joined;
  TimePoint heard;                // last beat, or any message
  std::optional<int> group_rank;  // in the current round, or in the last one it was in: kept where possible
};

// A node that is gone while its workers may still run: no round may start before `safe_at`.
struct Ghost {
  std::string host;
  TimePoint safe_at;
  std::string why;
};

enum class RoundState { kNone, kOpening, kRunning, kStopping };

// How the round that has ended failed; made by whoever can read the outcomes.
struct Failure {
  int rank = 0;
  std::string host;
  std::string fingerprint;  // of the root cause: the same way of failing has the same one
  Duration after{};         // of its start
  std::string text;         // "rank 3 on n2: exit code 1"
  int exit_code = 1;
  bool can_restart = true;  // false: e.g. the program does not exist
};

// Everything the decisions rest on. Events change it by the functions below, each a few lines and without a decision;
// decide() reads it. Nothing here does I/O or reads a clock.
struct State {
  TimePoint began;               // of the wait for members: the start, or when there were too few again
  std::map<NodeId, Node> nodes;  // connected
  std::vector<Ghost> ghosts;
  std::map<std::string, std::vector<TimePoint>> losses;  // by host
  std::set<int> hopeless;                                // positions of expected hosts that a launcher has given up on
  NodeId next_node = 1;

  RoundState round_state = RoundState::kNone;
  int round = -1;               // the current or last one
  std::vector<NodeId> members;  // of it, by group rank
  std::string stop_reason;
  bool counts_as_restart = false;  // the stop was caused by a worker's failure
  int restarts = 0;
  std::vector<Failure> quick_failures;  // in a row, the same way
  std::optional<Failure> failure;       // of the last round, once judged; cleared when the next one starts
  std::vector<std::string> lost;        // sentences: nodes that were lost in this round, and why we think so
  std::optional<int> stop_signal;       // the job was asked to end
  std::optional<TimePoint> last_join;
};

// What is to be done next. The reason is what log, console and tests show.
struct Decision {
  enum class Kind {
    kWait,       // nothing, until an event or wake_at
    kOpenRound,  // `members` by group rank
    kStopRound,  // tell every member that still runs to stop
    kJudge,      // every member's workers are reaped and some failed: say how (judged()), then decide again
    kDropNode,   // `node` is silent for too long: close it, node_gone()
    kEndJob,     // with `exit_code`
  };
  Kind kind = Kind::kWait;
  std::string reason;
  std::optional<TimePoint> wake_at;
  std::vector<NodeId> members;
  NodeId node = 0;
  int exit_code = 0;
  std::string ending;  // kEndJob: "succeeded", "worker-failed", "signalled", "node-lost", "join-timeout", "crash-loop"
};
Decision decide(TimePoint now, const State& state, const MembershipOptions& options);

// --- events ---------------------------------------------------------------------------------------------------------

// Whether a node may join, with the reason if not: duplicate rank (both hosts named), a host lost too often, a job
// that is over, another size on its command line.
std::optional<std::string> refusal(TimePoint now, const State& state, const MembershipOptions& options,
                                   const Join& join);
NodeId node_joined(TimePoint now, State& state, const Join& join);
void node_heard(TimePoint now, State& state, NodeId node);
// `clean`: the coordinator knows that nothing of it runs any more (idle, or it had reported its end).
// `silent`: fenced by its lease by now; else its connection was closed.
void node_gone(TimePoint now, State& state, const MembershipOptions& options, NodeId node, bool silent,
               const std::string& why);
void host_hopeless(State& state, int position);                       // the launcher cannot start an agent there
void host_hopeful(State& state, int position);                        // and tries again
void round_opened(State& state, const std::vector<NodeId>& members);  // OpenStore was sent
void round_running(State& state);                                     // StartRound was sent
void round_stopping(State& state, const std::string& reason, bool counts_as_restart);
void worker_failed(State& state, NodeId node, int round);
void round_ended(State& state, NodeId node, int round, bool succeeded);
void judged(State& state, Failure failure);
void stop_requested(State& state, int signal);
// This process itself stood still (suspend, SIGSTOP): nobody could be heard, so everybody gets a whole lease again.
void paused(TimePoint now, State& state);

// --- placement ------------------------------------------------------------------------------------------------------

// The rank arithmetic of one round: by group rank. Pure.
std::vector<StartRound> place(const State& state, const std::vector<NodeId>& members, int round, int restarts);

}  // namespace muster::rendezvous
