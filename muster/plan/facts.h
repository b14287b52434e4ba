#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "muster/base/environment.h"
#include "muster/base/result.h"
#include "muster/cluster/adapter.h"
#include "muster/container/prepare.h"
#include "muster/process/gpus.h"
#include "muster/process/python.h"

namespace muster::plan {

// What a path given as PROGRAM turns out to be.
enum class PathKind {
  kMissing,
  kForbidden,  // a directory of its path denies access
  kPackage,    // a directory with __main__.py
  kDirectory,  // any other
  kZip,        // .pyz, or a zipapp by its first bytes
  kExecutable,
  kMusterScript,  // an executable whose first line starts muster: a Python script
  kFile,
  kUnreadable,
};

// A fact that costs time (a resolver, a scan of /proc) or changes something, so that it is looked up only if a plan
// depends on it. What follows the name is the subject of the question, and the type of the answer; "or why not": an Error
// is an answer too.
enum class Topic : uint8_t {
  kGpus,              // GpuCount: those that this process was given
  kUsableCores,       // int
  kAffinityCpus,      // int
  kPython,            // string, or why not
  kTorch,             // python: optional<TorchVersion>
  kProgram,           // name: string (its path), or why not
  kPathKind,          // path: PathKind
  kIsDirectory,       // path: bool
  kFullHostname,      // string
  kCanCreate,         // path: bool (true), or why a file of that name can neither be written nor made
  kIsThisMachine,     // name or address: bool, or why it cannot be resolved
  kSlurmAddress,      // node: string, where Slurm reaches a node whose name cannot be resolved here; empty: by its name
  kPortIsFree,        // port: bool (true), or by whom it is taken
  kFreePort,          // "A-B": int, a free port of that range; 0: there is none
  kIsLoopback,        // interface or network: bool, or that there is none
  kFile,              // path: string (its text), or why it cannot be read
  kTokenFile,         // path: string (the secret), or why not
  kStdin,             // string: all that comes on stdin, cut shortly behind kLongestScript; or why not
  kFirstEnvironment,  // adapter: optional<Environment>, what the scheduler gave to the job's first process here
  kSchedulerJob,      // string: as cluster::scheduler_job() with files
  kTools,             // adapter: Tools, what it starts agents with, or why it cannot
  kHasMunge,          // bool
  kUserKey,           // "make" (if there is none), "": string (the user's key; empty: none), or why not
  kCanRecord,         // directory, which is made: bool (true), or why no record can be kept there
};

struct Question {
  Topic topic;
  std::string subject = {};
  auto operator<=>(const Question&) const = default;  // NOLINT(modernize-use-nullptr): in what it generates
};

using Answer = std::variant<bool, int, std::string, PathKind, process::GpuCount, std::optional<process::TorchVersion>,
                            std::optional<Environment>, cluster::Tools, Error>;

// What is known about this process and this machine. Data only.
struct Facts {
  Environment environment;        // of this process, before the set-up of the node
  std::string host;               // what this machine calls itself
  std::string uuid;               // a fresh one
  std::string working_directory;  // "/" if there is none
  uint64_t descriptor_limit = 0;  // how many this process may open now
  Result<std::optional<cluster::Surroundings>> here = std::optional<cluster::Surroundings>();
  std::map<Question, Answer> answers;
  // Made by the steps that the plan has asked for.
  std::optional<Environment> left_by_set_up;
  std::optional<container::Prepared> container;
};

}  // namespace muster::plan
