#pragma once

#include <functional>
#include <memory>
#include <string>

#include "muster/base/result.h"
#include "muster/cluster/hosts.h"
#include "muster/net/event_loop.h"
#include "muster/process/spawn.h"

namespace muster::cluster {

// Starts `muster agent` on a node and hands it its description. What the agent or the way to it (ssh) says on stderr is
// passed on line by line.
class Starter {
 public:
  struct Handlers {
    // Worth a word on the moving line: "connecting", "sending the program (5.2 MB)", "attempt 3: connection refused".
    std::function<void(int position, const std::string& what)> progress;
    // The way to the agent, or the agent itself, has ended. `joined` agents end too when their job does. kNotFound and
    // kNotExecutable: what the job is to run is not there, or no program.
    std::function<void(int position, const Error& why, bool may_try_again)> failed;
    std::function<void(int position, std::string_view line)> said;  // a line on stderr that is not an error of ssh
  };
  virtual ~Starter() = default;  // ends what is left of its own processes (not the remote agents: they notice)

  // Never blocks; may be called again for the same position after failed().
  virtual void start(int position, const Host& host, std::string description) = 0;
  // It has joined: what its connection says from now on is not a failure to start.
  virtual void joined(int position) = 0;
  // Ends the way to it, and a local agent itself, once whatever is left there had time to clean up and to say why;
  // failed() is not called. start() may be called again at once.
  virtual void abandon(int position) = 0;
};

// Of an agent that ended: in its own words, if its last line on stderr has them. Pure.
Error agent_ended(const process::ExitStatus& status, std::string_view last_line);

}  // namespace muster::cluster
