#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/cluster/ssh/starter.h"

namespace muster::cluster::ssh {

// What one run of ssh is for.
enum class Step {
  kOwnProgram,     // an agent of the program at our own path
  kGuardCached,    // is one there that was sent earlier, and is it ours? From now on no other user can change it
  kCheckCached,    // by its checksum
  kCachedProgram,  // an agent of it
  kMakeFolder,
  kGuardFolder,  // it is ours, and no other user can write to it
  kSend,
  kCheck,
  kAllow,
  kMove,
  kSentProgram,  // of the one just sent
  kRemove,       // what could not be sent whole; then it has failed
};
bool is_agent(Step step);
// It tries a program that may or may not be there.
bool is_attempt(Step step);
// Its output has the checksum.
bool is_check(Step step);

// Where a start begins: our own path only if it is the same word to every shell.
Step first_step(const Options& options);
// After a step that did what it should; none after an agent, which stays, and after kRemove.
std::optional<Step> step_after_success(Step step);
// After one that did not; none: the start has failed.
std::optional<Step> step_after_failure(Step step, Options::Push push);

// Letters, digits and "._/+-" only: no shell sees anything in it.
bool is_plain_word(std::string_view word);

// Where a program with this checksum lies on the other side, relative to the home directory.
std::string cached_program(const std::string& sha256);

struct Names {
  std::string program;  // our own
  std::string sha256;   // of what is sent
  std::string part;     // a name of its own for each start, since hosts may share a home
};
// The remote command of a step: plain words, so that no shell can change it, and nothing secret.
std::vector<std::string> remote_command(Step step, const Names& names);

// argv of ssh. The user's options stand first, since ssh takes the first value it sees.
std::vector<std::string> ssh_command(const Options& options, const Host& host,
                                     const std::vector<std::string>& remote_command);

}  // namespace muster::cluster::ssh
