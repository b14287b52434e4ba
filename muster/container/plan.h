#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "muster/container/spec.h"
#include "muster/process/spawn.h"

namespace muster::container {

enum class Gpus { kNone, kNvidia, kAmd };

// What the command lines of a container depend on, besides the options.
struct Node {
  uid_t uid = 0;
  gid_t gid = 0;
  std::string user = {};
  std::string host = {};  // the node's own name, which may differ from its name in the job
  Gpus gpus = Gpus::kNone;
  bool cdi = false;          // there is a description of NVIDIA's devices for podman
  std::string storage = {};  // the directory in which named containers are kept; other nodes may share it
};

// The image or container in which a worker runs.
struct Place {
  enum class Form {
    kName,       // an image or container that the runtime knows
    kFile,       // an image file
    kDirectory,  // a root file system
  };
  Form form = Form::kName;
  std::string text;
};

// How a signal reaches all processes of a worker.
enum class SignalWay {
  kGroup,           // the started process becomes the worker: signal its process group
  kGroupButLeader,  // signal the group without its leader: the leader forwards signals itself
  kLeaderInside,    // the worker is a child of another process, in its own session
};

// A container that is ready on this node. Plain data.
struct Plan {
  Spec spec = {};
  Node node = {};
  Place place = {};
  std::string label = {};                      // of each of the job's containers, if the runtime has labels
  std::set<std::string> image_variables = {};  // that the image sets
  Environment image_environment;  // variables to give to the runtime, because `place` is not the image itself
  std::set<std::string> given_variables = {};  // that the user gave to workers
  // Only for charliecloud:
  bool has_environment_file = false;  // the image has a file of variables
  bool makes_mount_points = false;    // some are missing in the image
};

SignalWay signal_way(Kind kind);
// Whether the runtime exits with 128 + n if signal n ended the worker, as podman does.
bool says_signals_as_codes(Kind kind);

}  // namespace muster::container
