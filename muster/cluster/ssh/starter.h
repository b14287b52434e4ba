#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "muster/cluster/starter.h"

namespace muster::cluster::ssh {

struct Options : SshCommand {
  std::string program;  // our own binary: absolute path, tried on the other side first
  using Push = cluster::Push;
  Push push = Push::kAuto;
  std::string binary = "/proc/self/exe";  // what is sent
  int at_a_time = 64;                     // handshakes
  // In front of every agent, words for the shell there: a command that becomes it (pbs_attach). What its failure means,
  // by exit code and stderr: nothing if it is not its own, kProgram if it did not find the agent's program.
  std::vector<std::string> wrapper = {};
  std::function<std::optional<StartFailure>(int exit_code, const std::string& errors)> wrapper_error = nullptr;
  Duration connect_timeout = std::chrono::seconds(10);
  Duration answer_timeout = std::chrono::seconds(60);  // for the first word of the agent, beyond connect_timeout
};

// What of the options of any adapter concerns ssh.
Options options_from(const StartOptions& options);

// The remote command is made of plain words only, whatever shell is there:
//   <program> agent                              the same path as here
//   .cache/muster/<sha256>/muster agent          pushed before; first chmod 700, which fails unless it is this user's,
//                                                and sha256sum: nothing runs that others may have changed
// and, to push: mkdir -p -m 700, chmod 700, dd of=…part, sha256sum, chmod, mv -f. A host that has neither gets the
// binary, once.
// The description is written only to an agent that has greeted us with our own version.
//
// A start may be tried again when the failure may pass: refused, timed out, lost. It may not when it will not: no such
// host, permission denied, an unknown host key, an agent that ended by itself before it joined.
std::unique_ptr<Starter> make_starter(net::EventLoop& loop, Options options, Environment environment,
                                      Starter::Handlers handlers);

// What ssh's own failure means, from its exit code and last lines: "connection refused", "no such host". Pure.
StartFailure explain_failure(int exit_code, std::string_view stderr_text);

// Whether a line on stderr is ssh's own word about the end of a connection, not one of the agent. Pure.
bool is_last_word(std::string_view line);

}  // namespace muster::cluster::ssh
