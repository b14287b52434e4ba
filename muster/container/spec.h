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

// A directory or file of the node that is visible inside the container.
struct Mount {
  std::string source;
  std::string target;
  bool read_only = false;
  bool operator==(const Mount&) const = default;
};

// "SOURCE:TARGET[:ro|:rw]"; a relative source starts at `directory`. Pure.
Result<Mount> parse_mount(std::string_view text, const std::string& directory);

// Mounts `path` at the same path inside, unless another mount is there or already shows it.
void show(std::vector<Mount>& mounts, const std::string& path);

// A container as the command line asks for it.
struct Spec {
  Kind kind = Kind::kPodman;
  std::string program = {};  // the runtime's program: a resolved path
  std::string image = {};    // as given; empty: the named container exists
  std::string name = {};     // of a container to keep; empty: none
  bool root = false;
  bool writable = false;
  std::vector<Mount> mounts = {};
  std::string directory = {};  // in which workers start, inside
  std::vector<std::string> options = {};
};

// Error kUsage: the runtime cannot do what `spec` asks for. Pure.
Result<void> check(const Spec& spec);

// Whether the text of an image can only mean a file or directory of the node. Names of podman and charliecloud may
// contain slashes. Pure: does not look at the file system.
bool is_written_as_path(Kind kind, std::string_view image);

// The runtime with the name `wanted`, or the first that is installed if it is empty. `find` resolves a program on PATH.
struct Found {
  Kind kind;
  std::string program;
};
using FindProgram = std::function<Result<std::string>(const std::string&)>;
Result<Found> find_runtime(std::string_view wanted, const FindProgram& find);

}  // namespace muster::container
