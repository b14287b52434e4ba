#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/agent/conclusion.h"
#include "muster/agent/crew.h"
#include "muster/base/result.h"
#include "muster/job/round.h"
#include "muster/net/event_loop.h"
#include "muster/output/console.h"
#include "muster/report/events.h"
#include "muster/report/voice.h"

namespace muster::output {
class Uplink;
}
namespace muster::rendezvous {
class OneNodeLink;
}

namespace muster::agent {

class WardenLink;

// Who may use the store of a round.
struct StoreAccess {
  std::vector<std::string> members;  // numeric addresses; this machine always may
};

// What a director can have done on this node; the supervisor does it.
class NodeControl {
 public:
  virtual net::EventLoop& loop() = 0;
  virtual output::Console& console() = 0;
  virtual report::Voice& voice() = 0;
  virtual report::Events& events() = 0;
  virtual Crew* crew() = 0;                                  // of the current or last round; null before the first
  virtual const std::vector<int>& stop_signals() const = 0;  // that asked this process to end, in order
  virtual output::Uplink* uplink() = 0;                      // null: the console is this process's own
  virtual bool own_name_is_reachable() const = 0;            // what this machine's name resolves to is not loopback

  // This node has become a member of the job with this id.
  virtual Result<void> join_job(const std::string& id) = 0;
  // A fresh store for the next round, on this node; returns its port. The old one is gone.
  virtual Result<uint16_t> open_store(const StoreAccess& access) = 0;
  virtual void close_store() = 0;
  // Starts all workers. What comes of it: Director::round_started() or round_ended().
  virtual void start_round(const job::Round& round) = 0;
  // Asks those that run, kills them after the grace; at once when it is 0. Director::round_ended() follows.
  virtual void stop_round(int signal, Duration grace) = 0;
  // No further round comes: Director::conclude() is called when the console has caught up.
  virtual void finish() = 0;

 protected:
  ~NodeControl() = default;
};

// Brings what the engine decides (rendezvous/engine.h) to this node, and tells the engine what came of it. Called by the
// supervisor, on its loop.
class Director {
 public:
  virtual ~Director() = default;
  virtual void begin() = 0;  // everything is prepared
  virtual void round_started() = 0;
  // At once; the supervisor is stopping its other workers already.
  virtual void worker_failed(const Worker& worker) = 0;
  // Every worker, and all they started, is gone. `error`: not all could be started.
  virtual void round_ended(const std::optional<Error>& error) = 0;
  // The first signal that asks this process to end. Workers that run are being stopped already.
  virtual void stop_asked(int signal) = 0;
  // A second signal asks to end without any grace; the workers of this node are killed by the caller.
  virtual void kill_asked(int /*signal*/) {}
  // The last word; returns the exit code. `error`: nothing could be prepared, begin() was not called.
  virtual int conclude(Conclusion& conclusion, const std::optional<Error>& error) = 0;
  // Nothing of the job is left on this node, and this process is about to exit. Blocks for a moment at most.
  virtual void all_is_gone() {}
  // For rounds and restarts so far.
  virtual Conclusion::Count count() const = 0;
};

// `engine`: of a job that has this node alone. Null: nothing could be prepared, and begin() will not be called.
std::unique_ptr<Director> make_local_node(NodeControl& node, const job::JobSpec& job, rendezvous::OneNodeLink* engine,
                                          int warden_pid);
std::unique_ptr<Director> make_member_node(NodeControl& node, const job::JobSpec& job, WardenLink& link);

}  // namespace muster::agent
