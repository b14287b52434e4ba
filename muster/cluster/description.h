#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/result.h"

namespace muster::cluster {

// All that an agent started by a launcher needs to know; travels on its stdin, never in an argument or a variable.
// The agent plans the job itself from the arguments, by what *its* machine has: GPUs, cores, Python.
struct Description {
  std::string muster_version;
  std::string token;                   // hex
  std::vector<std::string> endpoints;  // of the coordinator: "10.0.0.1:4711", tried in order
  std::string host;                    // what this node is called
  int position = 0;                    // in the launcher's list of hosts
  std::optional<int> workers;          // instead of --nproc-per-node
  std::string verb;                    // "run", "torchrun", "launch"
  std::vector<std::string> arguments;  // of that verb, as typed
  std::vector<std::pair<std::string, std::string>> environment;
  std::string directory;  // to work in; missing there: home, said once
  int columns = 0;        // of the launcher's terminal; 0: none. Decides pty or pipe for workers.
  bool operator==(const Description&) const = default;
};

// Begins with a magic, kDescriptionVersion and the length of what follows, so that it can be read from a stream that
// stays open.
inline constexpr uint32_t kDescriptionVersion = 1;
std::string encode(const Description& description);

// How many bytes the whole has, by its first kDescriptionHead; an error for what is no description, is of another
// version (the message names both), or is longer than 16 MiB.
inline constexpr size_t kDescriptionHead = 16;
Result<size_t> description_size(std::string_view head);
Result<Description> decode_description(std::string_view whole);

}  // namespace muster::cluster
