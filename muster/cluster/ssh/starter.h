#pragma once

#include <vector>

#include "muster/cluster/starter.h"

namespace muster::cluster::ssh {

struct Options {
  std::string ssh = "ssh";           // --ssh: looked up through PATH
  std::vector<std::string> options;  // --ssh-option, each behind -o
  std::string program;               // our own binary: absolute path, tried on the other side first
  enum class Push { kAuto, kAlways, kNever } push = Push::kAuto;
  int at_a_time = 64;  // handshakes
  Duration connect_timeout = std::chrono::seconds(10);
};

// The remote command is made of plain words only, whatever shell is there:
//   <program> agent                              the same path as here
//   .cache/muster/<sha256>/muster agent          pushed before
// and, to push: mkdir -p, dd of=…part, sha256sum, chmod, mv -f. A host that has neither gets the binary, once.
std::unique_ptr<Starter> make_starter(net::EventLoop& loop, Options options, process::Environment environment,
                                      Starter::Handlers handlers);

// What ssh's own failure means in a few words, from its exit code and last lines: "connection refused",
// "host key verification failed", "permission denied (publickey)", "no such host". Pure.
std::string explain_failure(int exit_code, std::string_view stderr_text);

}  // namespace muster::cluster::ssh
