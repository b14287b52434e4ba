#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/result.h"
#include "muster/cluster/starter.h"
#include "muster/cluster/surroundings.h"

namespace muster::cluster {

// A scheduler, or another way to find out about nodes and to reach them. An adapter has no state; there is one of each, a
// folder each, and adapters.h has the list. To add a scheduler: a folder with a subclass, and its line in that list.
// What an adapter cannot do it does not override.
class Adapter {
 public:
  virtual ~Adapter() = default;

  virtual std::string_view name() const = 0;  // "slurm", as JSON spells it
  // For people: "Slurm".
  virtual std::string_view title() const { return "the environment"; }

  // --- Where this process is ---

  // Nothing: this process is not in a job of this adapter. An error: it is, and the variables make no sense. Pure but for
  // `read_file`.
  virtual Result<std::optional<Surroundings>> detect(const GetEnv& /*getenv*/, const ReadFile& /*read_file*/) const {
    return std::optional<Surroundings>();
  }
  // The number of the job around this process, as the scheduler's own commands show it: "4711_3". Empty: none. Pure.
  virtual std::string job_number(const GetEnv& /*getenv*/) const { return {}; }
  // The job with a name that no other job has: "Slurm job 41". Empty: none. Pure.
  virtual std::string job_name(const GetEnv& /*getenv*/) const { return {}; }
  // The same by the path of a cgroup, for a process without the variables. Pure.
  virtual std::string job_of_cgroup(std::string_view /*path*/) const { return {}; }
  // The environment that the scheduler gave to the first process of the job here. Nothing: it is not known.
  virtual std::optional<Environment> first_environment() const { return std::nullopt; }
  // How long the scheduler will let the job run from now on; nothing: without limit. Asks its commands (squeue, qstat).
  virtual Result<std::optional<Duration>> time_left(const Surroundings& /*here*/, Deadline /*deadline*/) const {
    return std::optional<Duration>();
  }
  // Where the scheduler itself reaches a node, whatever a resolver makes of its name. Asks its commands.
  virtual Result<std::string> node_address(const std::string& /*node*/, Deadline /*deadline*/) const {
    return Error{ErrorKind::kUsage, std::string(title()) + " has no addresses of nodes", {}};
  }
  // What to write in front of a program to run it on every node of the allocation: "srun -N 4". Empty: nothing does. Pure.
  virtual std::string run_on_all(const Surroundings& /*here*/) const { return {}; }

  // --- The secret that the nodes of a job share ---

  // True if agents ask for their description, with the token in it, because the scheduler passes on no private stdin
  // (rendezvous/shared_secret.h). Otherwise both are written to their stdin.
  virtual bool agents_ask() const { return false; }
  // True if either all nodes of a job run munged or none does.
  virtual bool nodes_share_munge() const { return false; }

  // --- How agents are started ---

  // True if the nodes are simulated: all agents run on this machine.
  virtual bool is_local() const { return false; }
  // An error: the nodes cannot be started from here.
  virtual Result<Tools> find_tools(const GetEnv& /*getenv*/, const FindProgram& /*find_program*/,
                                   const ReadFile& /*read_file*/) const {
    return Tools{.paths = {}, .words = std::string(name()), .warning = {}};
  }
  // The variables of the launcher that agents need besides those that every agent is sent.
  virtual std::vector<std::string> variables_to_send() const { return {}; }
  // Makes the environment of the node at `position` of the launcher's.
  virtual void move_to_node(Environment& /*environment*/, int /*position*/) const {}
  // Null: it starts no agents. `environment`: of the commands that start them.
  virtual std::unique_ptr<Starter> make_starter(net::EventLoop& /*loop*/, const StartOptions& /*options*/,
                                                const Environment& /*environment*/,
                                                const Starter::Handlers& /*handlers*/) const {
    return nullptr;
  }
};

// Asks every adapter in turn; the first that finds itself answers. Nothing: no scheduler, no preset. An error: there is
// one, and what it says makes no sense (a nodefile that is not there). Pure but for `read_file`.
Result<std::optional<Surroundings>> detect(const GetEnv& getenv, const ReadFile& read_file);

// The job of the scheduler around this process: the first job_number() there is. Pure.
std::string scheduler_job(const GetEnv& getenv);

}  // namespace muster::cluster
