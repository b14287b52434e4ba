#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/job/ending.h"
#include "muster/rendezvous/protocol.h"

namespace muster::rendezvous {

enum class Grow { kNow, kRestart, kNever };

struct MembershipOptions {
  int min_nodes = 1;
  int max_nodes = 1;
  bool fixed_ranks = false;                 // static: a node's rank is the one it names
  int expected = 0;                         // hosts that a launcher is starting; 0: nobody knows who will come
  std::vector<std::string> expected_hosts;  // their names by position, for people; may be empty
  int lives = 0;                            // so many nodes join at most, ever: nobody starts one again; 0: any number
  std::string way_in;                       // where none are expected: how more come, for people; may be empty
  Duration join_timeout = std::chrono::seconds(600);
  Duration last_call = std::chrono::seconds(3);  // with unknown nodes: wait so long for more than min_nodes
  Duration lease = std::chrono::seconds(10);     // 0: the one node is in this process, which cannot lose it
  Grow grow = Grow::kNow;
  int max_restarts = 0;
  int crash_loop = 3;                                   // 0: off
  Duration crash_loop_time = std::chrono::seconds(10);  // "within seconds of its start"
  int losses_allowed = 1;                               // of one host in loss_window; one more and it is not readmitted
  Duration loss_window = std::chrono::minutes(10);
};

// How long after the end of a node's lease its warden may need to end everything; a long lease lets clocks drift apart.
constexpr Duration fence_margin(Duration lease) {
  return std::max<Duration>(std::chrono::milliseconds(500), lease / 20);
}

// For the kernel to end a node's workers after both processes of muster on it are gone.
inline constexpr Duration kCloseMargin = std::chrono::milliseconds(500);

// After Coordinator::kill(): a node whose workers have not ended after kKillTime is dropped, which makes its warden end
// everything there; the job ends after twice that time at the latest, whatever the node's warden has confirmed.
inline constexpr Duration kKillTime = std::chrono::seconds(2);

// Late nodes that come shortly one after the other cost one round, not one each.
inline constexpr Duration kGrowDelay = std::chrono::milliseconds(500);

// When one host is hopeless and too few are left, others may be about to be so for the same reason: a job that ends so
// much later names them all.
inline constexpr Duration kOthersFollow = std::chrono::milliseconds(500);

// A worker that was killed ends a job so much later, if it does: all of its node may be being killed.
inline constexpr Duration kNodeFollowsWorker = std::chrono::milliseconds(500);
inline constexpr int kKilled = 128 + 9;  // a worker's exit code after SIGKILL

// What one node does in the current round.
enum class Part {
  kIdle,    // has no worker: waits for a round, or is a spare
  kRuns,    // was told to start
  kStops,   // was told to stop; its workers may still run
  kDone,    // all its workers ended with 0 and are reaped
  kFailed,  // all are reaped, not all ended with 0
};

// The end of one of a node's two connections (the agent's control, the warden's heartbeats), as evidence that the
// processes behind it are gone.
enum class LinkEnd {
  kNone,     // it is open, or nothing is known
  kSilent,   // reset, timed out, broken by a wrong message, closed by us: says nothing about the other side
  kClosed,   // the other side's kernel has closed it between two messages (EOF)
  kGoodbye,  // Goodbye came: everything of the job on the node is gone
};

// What both ends together say about the node's workers.
enum class Departure {
  kSilent,   // they may run until the lease has ended: safe at the last beat + lease + fence_margin()
  kClosed,   // both processes of muster are gone, and the workers with them: safe after kCloseMargin
  kGoodbye,  // they are gone
};
// Goodbye on either connection is enough; closed connections are only if both are. Pure.
Departure departure(LinkEnd control, LinkEnd heartbeat);

struct Node {
  NodeId id = 0;
  Join join;
  Part part = Part::kIdle;
  TimePoint joined;
  TimePoint heard;                      // last beat
  std::optional<TimePoint> unanswered;  // when the Ping was sent that its agent has not answered
  LinkEnd control = LinkEnd::kNone, heartbeat = LinkEnd::kNone;
  std::optional<int> group_rank;    // in the current round, or in the last one it was in: kept where possible
  int last_round = -1;              // the last round it was a member of
  bool ended_by_our_pause = false;  // once it is gone: ended_by_our_pause()
};

// Why a node is gone; words.h says it in words.
struct Loss {
  enum class Cause {
    kClosed,     // its side closed the control connection: it knows, and delivers its output to the end
    kBroken,     // the control connection broke on the way
    kProtocol,   // it sent what no node sends
    kSilent,     // no beat for `lasting`
    kNoAnswer,   // its agent has not answered for `lasting`
    kNotKilled,  // its workers were killed and have not ended
    kLeft,       // its warden said goodbye
  };
  Cause cause = Cause::kClosed;
  std::string host = {};
  std::string detail = {};  // of a connection: "connection closed by 10.0.0.2:4711"; may be empty
  Duration lasting{};
};

// A node that is gone while its workers may still run: no round may start before `safe_at`.
struct Ghost {
  NodeId node = 0;
  TimePoint lease_end;  // with the margin
  TimePoint safe_at;    // that, or earlier by what its connections have told
  Loss loss;
  LinkEnd control = LinkEnd::kNone, heartbeat = LinkEnd::kNone;
};

// Why a host that is expected does not come. The exit code of a job that fails for it follows from the error: a program
// that is not there has its own.
struct Hopeless {
  Error why;
  TimePoint since = {};
};

//   kNone ──▶ kOpening ── StartRound sent ──▶ kRunning ──▶ kStopping, until all are reaped ──▶ kOpening of the next
//             kOpening ── before that a stop, or a member is gone ───▶ kStopping; nobody has workers yet
// A round that has ended stays kStopping until the next one opens or the job ends. During kOpening all are kIdle.
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
  TimePoint began;                             // of the wait for members: the start, or when there were too few again
  bool gathering = true;                       // that wait goes on, or will once the round has ended
  std::map<NodeId, Node> nodes;                // connected
  std::map<int, NodeId> by_rank, by_position;  // of them, who named a static rank, or its place in the list of hosts
  std::vector<Ghost> ghosts;
  std::map<std::string, std::vector<TimePoint>> losses;  // by host
  std::optional<TimePoint> paused_until;                 // the end of our last pause that was long enough to end leases
  std::map<int, Hopeless> hopeless;                      // positions of expected hosts that a launcher has given up on
  NodeId next_node = 1;
  std::optional<TimePoint> last_join;

  RoundState round_state = RoundState::kNone;
  int round = -1;               // the current or last one
  std::vector<NodeId> members;  // of it, by group rank
  size_t started_with = 0;      // members of the first round
  std::set<NodeId> finished;    // members that had reported their end with 0 and are gone since
  std::string stop_reason;
  TimePoint stopped_at;                  // when that was decided
  bool counts_as_restart = false;        // the stop was caused by a worker's failure, and no node was lost
  std::optional<std::string> failed_on;  // the host of the first worker that failed
  std::optional<Loss> failed_node_gone;  // once that node is gone too
  int restarts = 0;
  std::vector<Failure> failures;       // in a row: every round since the first of them failed, each the same way
  std::optional<Failure> failure;      // of the last round, once judged; cleared when the next one opens
  std::vector<Loss> lost;              // nodes that were lost in this round
  std::vector<Loss> gone;              // the same for nodes that are gone since the round opened
  std::optional<int> stop_signal;      // the job was asked to end
  std::string stop_host;               // whose muster was; empty: the launcher
  std::optional<TimePoint> killed_at;  // and then to end without any grace
  std::optional<job::Ending> ending;   // of a job that is over
};

// What a decision to wait waits for.
enum class Waiting {
  kNothing,       // the job is over
  kNewcomers,     // further nodes, for kGrowDelay, before a round is stopped for those that came
  kStore,         // the round opens
  kRound,         // the round runs
  kWorkers,       // the workers of a round that was stopped end
  kConfirmation,  // after a kill: a lost node confirms the end of its workers
  kLease,         // the lease of a lost node ends
  kNodeOfWorker,  // the node of a killed worker may be lost too
  kOtherHosts,    // other hosts may be hopeless too
  kNodes,         // nodes that are missing
  kLastCall,      // nodes that the round could do without
};

// What is to be done next, and why: the reason is for people, without times. words.h adds the time that is left.
struct Decision {
  enum class Kind {
    kWait,       // nothing, until an event or wake_at
    kOpenRound,  // `members` by group rank: round_opened()
    kStopRound,  // tell every member that runs to stop, with `signal`: round_stopping()
    kJudge,      // every member's workers are reaped and some failed: say how (judged()), then decide again
    kDropNode,   // `node` is silent, or does not answer, for too long: close it, node_gone() as silent with `loss`
    kEndJob,     // with `exit_code`: job_ended()
  };
  Kind kind = Kind::kWait;
  std::string reason;
  Waiting waiting = Waiting::kNothing;  // kWait
  std::optional<TimePoint> until;       // kWait: when the wait ends at the latest, if people are told
  std::optional<TimePoint> wake_at;     // kWait: the decision may change then without an event
  std::vector<NodeId> members;
  NodeId node = 0;
  Loss loss;
  int signal = 15;
  bool counts_as_restart = false;  // kStopRound
  int exit_code = 0;
  job::Ending ending = job::Ending::kSucceeded;  // kEndJob
};

// The rules, in this order:
// - A node that has been silent for lease + fence_margin() is dropped. Its warden has killed its workers by then. So is
//   one whose agent has not answered a Ping for as long, and after a kill one whose workers have not ended in kKillTime:
//   its warden is told so and ends them.
// - A round is stopped by a signal, by the loss of a member, by a failed worker, and (Grow::kNow) by nodes that wait
//   while there is room, kGrowDelay after the last of them came and while no member is done. All done is success.
// - Nothing else happens before every connected node has reaped its workers and every ghost is safe.
// - A failure is judged, unless a node was lost before the round was over: the loss is taken for the cause, for peers
//   of a lost node fall over. (A member that does not answer keeps the round from being over until it does or is
//   dropped, so silence is told from failure in time.) It ends the job when no restart is left, none can help, or it
//   is a crash loop; else the next round is a restart. Only such rounds are.
// - The first round of expected hosts opens when the first max_nodes of them that are not hopeless are there: a spare
//   neither holds it up nor takes the place of one that is slow. Other rounds open at once with max_nodes. With fewer:
//   the first last_call after the last join; later ones at once if there were always enough nodes, else when all
//   expected ones are back or last_call after the last join. At join_timeout enough are enough, and with too few the
//   job ends, or as soon as nobody else can come: kOthersFollow after the first host that cannot, while others are on
//   their way.
// Costs one walk over the nodes: call it once a turn of the loop, not once a message.
Decision decide(TimePoint now, const State& state, const MembershipOptions& options);

// The end of a job that was asked to end (stop_requested()); also, on one machine, of one that has succeeded and whose
// output has not been delivered. Pure.
Decision end_by_signal(const State& state);
// Why a job ends that was asked to: a signal to one muster ends the job on every node, so all are told whose it was.
std::string signal_reason(const State& state);

// How many nodes a round needs, and how many the next one takes at most.
size_t needed_nodes(const MembershipOptions& options);
size_t most_nodes(const State& state, const MembershipOptions& options);

// --- events ---------------------------------------------------------------------------------------------------------

// Whether a node may join, with the reason if not: duplicate rank (both hosts named), a host lost too often, a job
// that is over, another size on its command line.
std::optional<std::string> refusal(TimePoint now, const State& state, const MembershipOptions& options,
                                   const Join& join);
// The node of the same host whose rank or position a node claims: an earlier life, which may have ended without a word
// (power, a reboot). Pure.
std::optional<NodeId> earlier_life(const State& state, const Join& join);
NodeId node_joined(TimePoint now, State& state, const Join& join);
void node_heard(TimePoint now, State& state, NodeId node);
void node_pinged(TimePoint now, State& state, NodeId node);  // at most one Ping is on its way
void node_answered(State& state, NodeId node);
// Goodbye came on the control connection; its end will follow.
void node_said_goodbye(State& state, NodeId node);
// The heartbeat connection of a node has ended, or another was made (kNone). Also of a node that is gone: its ghost may
// be safe earlier for it.
void heartbeat_ended(TimePoint now, State& state, NodeId node, LinkEnd end);
// The control connection of a node is no more. What that means follows from its part: without workers, or done, it is no
// loss. When the next round may start follows from departure() and the last beat, so call node_heard() before.
// The loss needs no host.
void node_gone(TimePoint now, State& state, const MembershipOptions& options, NodeId node, LinkEnd control, Loss loss);
// Whether this process stood still for so long that the node's lease may have ended for it: its end is then no loss of
// its host. Pure.
bool ended_by_our_pause(TimePoint now, const State& state, const MembershipOptions& options, const Node& node);
// The launcher starts no agent there; it tries again.
void host_hopeless(State& state, int position, Error why, TimePoint now = {});
void host_hopeful(State& state, int position);
void round_opened(State& state, const std::vector<NodeId>& members);  // OpenStore was sent; state.round is its number
void round_running(State& state);                                     // StartRound was sent
void round_stopping(TimePoint now, State& state, const std::string& reason, bool counts_as_restart);
void worker_failed(State& state, NodeId node, int round);
// Also for a store that could not be opened (not succeeded): the round ends before it began.
void round_ended(State& state, NodeId node, int round, bool succeeded);
void judged(State& state, Failure failure);
void stop_requested(State& state, int signal, const std::string& host = {});  // the first one counts
void kill_requested(TimePoint now, State& state);                             // likewise
void job_ended(State& state, const Decision& decision);
// This process itself stood still since `began` (suspend, SIGSTOP): no node could be heard, so each gets a whole lease
// again; and none could join, so the wait for nodes is longer by the pause.
void paused(TimePoint began, TimePoint now, State& state, const MembershipOptions& options);

// --- placement ------------------------------------------------------------------------------------------------------

// Who would be in the next round, by group rank: members of the last round first, then by static rank, position in the
// list of hosts, and order of arrival; max_nodes at most. A node keeps its group rank unless the ranks would have a
// hole; others fill the holes. Fixed ranks are taken as they are. Pure.
std::vector<NodeId> choose_members(const State& state, const MembershipOptions& options);

// Where a launcher says who will come: whom the next round waits for, by position in the list of hosts. Pure.
struct ExpectedHosts {
  size_t here = 0;           // nodes that it would have, were it opened now; a first one: without spares
  std::vector<int> awaited;  // a first one: of the max_nodes hosts that it is for, in their order; else of all
  std::vector<int> hopeless;
};
ExpectedHosts expected_hosts(const State& state, const MembershipOptions& options);

// Whether there was a last round, and enough nodes for it: how the job ends is then no matter of anybody else's. Pure.
bool had_enough(const State& state);
// Whether this is such a node. Pure.
bool is_spare(const State& state, NodeId node);

// The rank arithmetic of one round: by group rank. Addresses and the port are left to the caller. Pure.
std::vector<job::Round> place(const State& state, const std::vector<NodeId>& members, int round, int restarts);

}  // namespace muster::rendezvous
