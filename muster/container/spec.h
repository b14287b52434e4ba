#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster::container {

enum class Kind { kEnroot, kApptainer, kPodman, kCharliecloud };

// As --container-runtime spells it.
std::string_view name_of(Kind kind);

// A directory or file of the node that is seen inside.
struct Mount {
  std::string source;
  std::string target;
  bool read_only = false;
  bool operator==(const Mount&) const = default;
};

// "SOURCE:TARGET[:ro|:rw]"; a relative source starts at `directory`. Pure.
Result<Mount> parse_mount(std::string_view text, const std::string& directory);

// Sees to it that `path` is found inside where it is outside, unless a mount has taken that place or shows it already.
void show(std::vector<Mount>& mounts, const std::string& path);

// A container as the command line asks for it.
struct Spec {
  Kind kind = Kind::kPodman;
  std::string program = {};  // of the runtime: a resolved path
  std::string image = {};    // as given; empty: the container of that name exists
  std::string name = {};     // of a container that is kept; empty: none is
  bool root = false;
  bool writable = false;
  std::vector<Mount> mounts = {};
  std::string directory = {};  // where workers start, inside
  std::vector<std::string> options = {};
};

// What this runtime cannot do of that: kUsage, with the way out. Pure.
Result<void> check(const Spec& spec);

// Whether an image can only be a file or directory of the node: by how it is written, whatever there is. What podman
// and charliecloud know by name may have slashes in it. Pure.
bool is_written_as_path(Kind kind, std::string_view image);

// The runtime of that name, or where it is empty the first that is there. `find` resolves a program on PATH.
struct Found {
  Kind kind;
  std::string program;
};
using FindProgram = std::function<Result<std::string>(const std::string&)>;
Result<Found> find_runtime(std::string_view wanted, const FindProgram& find);

}  // namespace muster::container
