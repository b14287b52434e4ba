#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/log.h"
#include "muster/base/result.h"
#include "muster/cluster/adapter.h"
#include "muster/container/prepare.h"
#include "muster/environment/setup.h"
#include "muster/process/gpus.h"
#include "muster/process/python.h"
#include "muster/process/spawn.h"

namespace muster::cli {

// What a path given as PROGRAM turns out to be.
enum class PathKind {
  kMissing,
  kForbidden,  // a directory of its path denies access
  kPackage,    // a directory with __main__.py
  kDirectory,  // any other
  kZip,        // .pyz, or a zipapp by its first bytes
  kExecutable,
  kMusterScript,  // an executable whose first line starts muster: a Python script, see starts_muster()
  kFile,
  kUnreadable,
};

// Whether a file that begins with these bytes is a script that muster itself is the interpreter of:
// "#!/usr/bin/env -S muster run", "#!/opt/bin/muster torchrun", also behind srun, nice and the like. To execute such a
// file is to start muster again for the same file, without end. `own_name`: what the file of this program is called
// ("muster-0.2"). Pure.
bool starts_muster(std::string_view beginning, std::string_view own_name = "muster");

// How a node is set up.
struct SetUpManner {
  std::string host;  // what this node is called
  Duration time;     // at most
  LogLevel threshold = LogLevel::kInfo;
};

// All a job's options depend on besides the command line. Each is asked only when it matters, since some cost time (a
// resolver, a scan of /proc). Tests supply their own.
struct Facts {
  Environment environment;
  GetEnv getenv;
  std::function<process::GpuCount()> gpus;
  std::function<int()> usable_cores;
  std::function<int()> physical_cores;    // not hyperthreads; 0: unknown
  std::function<bool()> gpu_peer_access;  // see process::have_peer_access
  std::function<int()> affinity_cpus;
  std::function<Result<std::string>()> find_python;
  std::function<Result<std::string>(const std::string&)> find_program;
  std::function<std::optional<process::TorchVersion>(const std::string&)> find_torch;
  std::function<PathKind(const std::string&)> path_kind;
  std::function<std::string()> fully_qualified_hostname;
  std::function<std::string()> uuid;
  // A file of that name can be written, or made.
  std::function<Result<void>(const std::string&)> can_create;
  // Whether a name or address is this machine's; an error when nobody knows the name. May ask the resolver.
  std::function<Result<bool>(const std::string&)> is_this_machine;
  // Of a node of Slurm whose name nobody here can look up: where Slurm reaches it. Nothing: the name will do, or must.
  std::function<std::optional<std::string>(const std::string&)> slurm_address;
  // Fails when a TCP port of this machine is taken.
  std::function<Result<void>(uint16_t)> check_port;
  // Whether an interface or network of this machine is loopback's alone; fails when there is none of that name.
  std::function<Result<bool>(const std::string&)> is_loopback;
  // A small text file.
  std::function<Result<std::string>(const std::string&)> read_file;
  // What is in the file of --token-file (rendezvous/user_key.h).
  std::function<Result<std::string>(const std::string&)> token_file;
  // All that comes on stdin, to its end; blocks until then. Cut shortly behind kLongestScript.
  std::function<Result<std::string>()> read_stdin;
  // What the scheduler (Slurm or PBS) gave to the first process of this job, or step, on this node, if that is above this
  // one; nothing: unknown.
  std::function<std::optional<Environment>(const cluster::Adapter&)> job_environment;
  // The user's key (rendezvous/user_key.h); `make` it if there is none.
  std::function<Result<std::optional<std::string>>(bool make)> user_key;
  // Does what `setup` says, beginning with the environment `before`, and makes what it leaves the environment of this
  // process: all that is asked here from then on follows from it. A line that fails has been shown with its output.
  std::function<Result<Environment>(const environment::Setup& setup, const Environment& before,
                                    const SetUpManner& manner)>
      set_up;
  // Fails when no record can be kept in that directory, which it makes.
  std::function<Result<void>(const std::string&)> check_record;
  std::function<bool(const std::string&)> is_directory;
  // Where this process works.
  std::function<std::string()> working_directory;
  // Makes a container ready on this machine (container/prepare.h) and says what takes long, unless told to be quiet.
  std::function<Result<container::Prepared>(const container::Request& request, LogLevel threshold)> prepare_container;
  // munge can seal and open something here.
  std::function<bool()> munge;
  // How many descriptors this process may open now.
  std::function<uint64_t()> descriptor_limit;
  // Sees to it that this process may open so many descriptors; returns the limit it could get.
  std::function<uint64_t(uint64_t)> raise_descriptor_limit;
};

// Of this whole process: what is planned, found on PATH and given to workers follows from it.
void use_environment(const Environment& environment);

// This process, this machine. `launcher`: a descriptor that hangs up when whoever started this node is gone.
Facts real_facts(int launcher = -1);

}  // namespace muster::cli
