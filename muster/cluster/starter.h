#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/result.h"
#include "muster/cluster/hosts.h"
#include "muster/cluster/start_failure.h"
#include "muster/net/event_loop.h"
#include "muster/process/spawn.h"

namespace muster::cluster {

// How far the start of an agent has come.
struct Progress {
  enum class Stage {
    kConnecting,   // over ssh
    kRequested,    // of a scheduler
    kWaiting,      // the scheduler waits; detail: what for
    kReplacing,    // the program that was sent there earlier has changed
    kSending,      // the program; detail: its size, if known
    kStarting,     // the agent runs and gets its description
    kUnreachable,  // the agent cannot reach the coordinator; detail: where and why
    kSettingUp,    // the agent prepares the node; detail: the step
  };
  Stage stage = Stage::kConnecting;
  std::string detail = {};
  std::string_view command = {};  // of the scheduler: "srun"
  bool operator==(const Progress&) const = default;
};

// Starts `muster agent` on a node and sees that it gets its description: on its stdin, or because it asks for it
// (Fetch, below; then start() has no use for the description). What the agent or the way to it (ssh) says on stderr is
// passed on line by line.
class Starter {
 public:
  struct Handlers {
    std::function<void(int position, const Progress& progress)> progress;
    // The way to the agent, or the agent itself, has ended. `joined` agents end too when their job does.
    std::function<void(int position, const StartFailure& failure)> failed;
    std::function<void(int position, std::string_view line)> said;  // a line on stderr that is not an error of ssh
  };
  virtual ~Starter() = default;  // ends what is left of its own processes (not the remote agents: they notice)

  // Never blocks; may be called again for the same position after failed().
  virtual void start(int position, const Host& host, std::string description) = 0;
  // It has asked for its description: it is there, and may now take its time. Only of agents that fetch.
  virtual void asked(int /*position*/) {}
  // It has joined: what its connection says from now on is not a failure to start.
  virtual void joined(int position) = 0;
  // Ends the way to it, and a local agent itself, once whatever is left there had time to clean up and to say why;
  // failed() is not called. start() may be called again at once.
  virtual void abandon(int position) = 0;
};

// When the program itself is sent to a node: --push-binary.
enum class Push {
  kAuto,    // when the other side has no muster of our version
  kAlways,  // what is there under our path is not even tried
  kNever
};

// How an agent gets its description where a scheduler starts it, which hands on no stdin that others cannot read: it
// asks the coordinator for it. Nothing in here is secret.
struct Fetch {
  std::vector<std::string> endpoints;  // of the coordinator: numeric, tried in order
  std::string nonce;                   // hex, of this job
  bool munge = false;                  // the token comes sealed by munge; else from the user's key and the nonce
  bool operator==(const Fetch&) const = default;
};

// The ssh to use: --ssh and --ssh-option.
struct SshCommand {
  std::string ssh = "ssh";             // looked up through PATH
  std::vector<std::string> arguments;  // of that command
  std::vector<std::string> options;    // each behind -o
};

// The commands of a scheduler that this machine has.
struct Tools {
  std::map<std::string, std::string> paths;  // by name: "pbs_tmrsh"
  std::string words;                         // what agents are started with: "srun", "ssh and pbs_attach"
  std::string warning;                       // what the user should know about that; empty: nothing
  std::string path(const std::string& name) const {
    auto found = paths.find(name);
    return found == paths.end() ? std::string() : found->second;
  }
};

// What an adapter needs to start agents. Each takes what concerns it.
struct StartOptions {
  std::string program;  // our own binary: absolute path
  Push push = Push::kAuto;
  SshCommand ssh;
  Tools tools;
  Fetch fetch;
  std::string job_id;  // the scheduler's
  int here = -1;       // position of the node that this process runs on; -1: it runs on none of them
};

// argv of an agent that fetches: words that no shell sees anything in (an IPv6 address stands without its brackets), if
// `program` is one. `name`: the host's in the
// launcher's list; empty: what the scheduler calls the node it runs on, else the machine's own name.
std::vector<std::string> fetch_command(const std::string& program, const Fetch& fetch, const std::string& name = {});

// Whether a line on stderr is what an agent says at its end.
bool is_last_word(std::string_view line);
// Of an agent that ended: in its own words, if its last line on stderr has them. Pure.
Error agent_ended(const process::ExitStatus& status, std::string_view last_line);

}  // namespace muster::cluster
