#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/result.h"

namespace muster::cluster {

// All that an agent started by a launcher needs to know; travels on its stdin, never in an argument or a variable.
// The agent plans its part itself from the request, by what *its* machine has: GPUs, cores, Python.
struct Description {
  std::string muster_version;
  std::string token;                   // hex
  std::vector<std::string> endpoints;  // of the coordinator: "10.0.0.1:4711", tried in order
  std::string host;                    // what this node is called
  int position = 0;                    // in the launcher's list of hosts
  std::optional<int> workers;          // instead of --nproc-per-node
  std::string request;                 // what was asked for: job::encode()
  std::string run_id;                  // what the job is called
  Environment environment;
  std::optional<std::string> script;  // the text of the program, if it cannot be found by its name on every node
  std::string directory;              // to work in; missing there: home, said once
  // Of the terminals that the launcher's stdout and stderr are; 0: none. Decides pty or pipe for workers.
  std::array<int, 2> columns{};
  bool operator==(const Description&) const = default;
};

// Begins with a magic, kDescriptionVersion and the length of what follows, so that it can be read from a stream that
// stays open.
inline constexpr uint32_t kDescriptionVersion = 4;
std::string encode(const Description& description);

// How many bytes the whole has, by its first kDescriptionHead; an error for what is no description, is of another
// version (the message names both), or is longer than 16 MiB.
inline constexpr size_t kDescriptionHead = 16;
Result<size_t> description_size(std::string_view head);
Result<Description> decode_description(std::string_view whole);

// "muster-agent 0.1.0 4\n": the version and kDescriptionVersion. The first thing `muster agent` writes to its stdout,
// before it reads its stdin: nobody is given a description, and so the token, who has not said this.
inline constexpr std::string_view kGreetingWord = "muster-agent";
std::string agent_greeting();

// Finds the greeting in what comes from stdout. A login script may have said something first: that is passed over.
class GreetingReader {
 public:
  enum class State {
    kWaiting,  // for more
    kGood,     // an agent of our version
    kOther,    // an agent of another one
    kNone,     // too much that is no greeting
  };
  State add(std::string_view bytes);
  State state() const { return state_; }
  const std::string& other() const { return other_; }  // the version of kOther

 private:
  void take_line(std::string_view line);
  State state_ = State::kWaiting;
  std::string line_;
  size_t seen_ = 0;
  std::string other_;
};

}  // namespace muster::cluster
