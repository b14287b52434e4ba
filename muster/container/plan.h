#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "muster/container/spec.h"
#include "muster/process/spawn.h"

namespace muster::container {

enum class Gpus { kNone, kNvidia, kAmd };

// What a container's command lines depend on besides the options.
struct Node {
  uid_t uid = 0;
  gid_t gid = 0;
  std::string user = {};
  std::string host = {};  // the node's own name, whatever the job calls it
  Gpus gpus = Gpus::kNone;
  bool cdi = false;          // there is a description of NVIDIA's devices for podman
  std::string storage = {};  // the directory in which named containers are kept; other nodes may share it
};

// What a worker is run in.
struct Place {
  enum class Form {
    kName,       // an image or container that the runtime knows
    kFile,       // an image file
    kDirectory,  // a root file system
  };
  Form form = Form::kName;
  std::string text;
};

// How a signal for a worker gets to everything of it.
enum class SignalWay {
  kGroup,           // what was started becomes the worker: its process group is all
  kGroupButLeader,  // what was started waits, and passes on what it gets: it must get nothing, or all comes twice
  kLeaderInside,    // the worker is somebody else's child, in a session of its own
};

// A container made ready on this node. Plain data.
struct Plan {
  Spec spec = {};
  Node node = {};
  Place place = {};
  std::string label = {};                      // on each of the job's containers, where the runtime knows labels
  std::set<std::string> image_variables = {};  // what the image sets
  Environment image_environment;  // what of it the runtime must be told, because `place` is not the image itself
  std::set<std::string> given_variables = {};  // what the user gave workers expressly
  // charliecloud's alone:
  bool has_environment_file = false;  // the image brings variables
  bool makes_mount_points = false;    // some are missing in the image
};

SignalWay signal_way(Kind kind);
// podman's own exit code for a worker that a signal ended is 128 + n.
bool says_signals_as_codes(Kind kind);

}  // namespace muster::container
