#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/job/round.h"

namespace muster::rendezvous {

// One life of one agent in one job; never used again, so what an earlier life says or does cannot be mistaken.
using NodeId = uint32_t;

// Of one list in a message: pids, addresses.
inline constexpr size_t kMostElements = 65536;

// --- agent → coordinator ------------------------------------------------------------------------------------------

struct Join {
  std::string host;  // its name for people: labels, reports
  int workers = 1;   // how many it will start
  std::string role = "default";
  std::optional<int> rank;      // --node-rank of a static rendezvous
  std::optional<int> position;  // in the list of hosts, when a launcher started it
  int agent_pid = 0;
  std::vector<std::string> addresses;  // of its interfaces, numeric, best first; the coordinator prefers what it saw
  int min_nodes = 0, max_nodes = 0;    // symmetric: as its own command line says; 0: it was not asked
  bool chose_addresses = false;        // --interface: it is to be found there
};
// Answers OpenStore. An error ends the job: no port, no permission.
struct StoreOpened {
  int round = 0;
  uint16_t port = 0;
  std::string error;
};
struct RoundStarted {
  int round = 0;
  std::vector<int> pids;  // by local rank
};
// A worker failed: at once, while its peers still run. The rest comes with RoundEnded.
struct WorkerFailed {
  int round = 0;
  int rank = 0;
  std::string what;  // "exit code 1", "SIGKILL"
};
// All workers of this node, and all they started, are gone and reaped.
struct RoundEnded {
  int round = 0;
  bool succeeded = false;   // every worker of the node ended with 0
  std::string outcomes;     // encode_outcomes() of the agent; opaque here
  std::string start_error;  // the round could not be started here
};
// A signal asked this node's agent to end (symmetric: the user's Ctrl-C, the scheduler's SIGTERM on one node). A second
// one of the same node: without any grace.
struct StopRequest {
  int signal = 0;
};

// Answers Ping.
struct Pong {
  uint64_t sequence = 0;
};
// The last message of an agent on its control connection, or of a warden on its heartbeat connection: every process of
// the job on this node is gone, and no other will be started. Only this lets the coordinator start the next round
// before the node's lease has run out.
struct Goodbye {
  NodeId node = 0;
};

// --- coordinator → agent ------------------------------------------------------------------------------------------

struct Welcome {
  NodeId node = 0;
  std::string job;  // random id of the job
  Duration lease{};
  std::string address;  // this node's, as its peers reach it
};
struct Refuse {
  std::string reason;  // a sentence; the agent prints it and ends with 125
  std::string hint;
};
struct OpenStore {
  int round = 0;
  std::vector<std::string> members;  // numeric addresses that may connect
};
struct StartRound {
  job::Round round;                           // without the agent's part
  std::vector<std::string> master_addresses;  // candidates, best first; the agent gives out the first that it reaches
  std::string own_address;                    // this node's, as its peers reach it
};
struct StopRound {
  int round = 0;
  int signal = 15;
  Duration grace{};
  std::string reason;
};
// Several times within each lease. A side that gets no answer, or no Ping, for a lease takes the other side for lost, even
// if heartbeats still pass; and a firewall that forgets idle connections sees traffic.
struct Ping {
  uint64_t sequence = 0;
};
struct PassSignal {
  int signal = 0;
};
// The job is over; the agent says `text`, if any, on its own console, and ends with the code.
struct EndJob {
  int exit_code = 0;
  std::string text;         // the report
  std::string reason = {};  // in a sentence
};

// --- heartbeat connection -----------------------------------------------------------------------------------------

// From the warden. The lease holds until `sent` of the last beat that was echoed, plus the lease.
struct Beat {
  NodeId node = 0;
  uint64_t sequence = 0;
  int64_t sent = 0;     // the warden's clock (Clock), ns
  bool paused = false;  // it has been stopped or stalled for longer than it should: does my round still stand?
};
struct Echo {
  uint64_t sequence = 0;
  int64_t sent = 0;         // as in the beat
  int64_t coordinator = 0;  // the coordinator's clock when it came, ns: clock offset = coordinator - (sent + now) / 2
  bool stands = true;       // the node is still a member; false: end everything
};

// --- output connection --------------------------------------------------------------------------------------------

struct OutputHello {
  NodeId node = 0;
};
struct Chunk {
  static constexpr uint8_t kStderr = 1, kLiveLine = 2, kEvents = 3, kEnd = 4;
  uint8_t stream = 0;  // 0 stdout, 1 stderr, 2 the line that moves, 3 for the file of --events, 4 nothing follows
  std::string bytes;   // whole lines where there are any; of the line that moves: all of it, nothing removes it
};
// From the coordinator, first when a connection is new: how many chunks of this life of the node it has taken, on
// whatever connection, lines that move not counted. The agent sends what follows them.
struct OutputTaken {
  uint64_t chunks = 0;
};
// An agent stops sending when chunks of so many bytes are not acknowledged.
inline constexpr size_t kOutputWindow = 16 << 20;
// How often OutputTaken is sent, at least, to an agent that waits for an acknowledgement.
inline constexpr Duration kOutputPulse = std::chrono::milliseconds(500);

using Message = std::variant<Join, StoreOpened, RoundStarted, WorkerFailed, RoundEnded, StopRequest, Welcome, Refuse,
                             OpenStore, StartRound, StopRound, PassSignal, EndJob, Beat, Echo, OutputHello, Chunk, Ping,
                             Pong, Goodbye, OutputTaken>;

std::string encode(const Message& message);
// Bytes of anybody who holds the token: still checked. Counts and ranges are sane (workers 1 to 65536, rounds and
// ranks not negative, at most 65536 addresses, signals 1 to 64) or it is an error.
Result<Message> decode(std::string_view bytes);

}  // namespace muster::rendezvous
