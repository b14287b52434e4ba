#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/fd.h"
#include "muster/base/result.h"
#include "muster/cluster/surroundings.h"

namespace muster::cluster::slurm {

// `srun --ntasks-per-node=4 muster run …`: four tasks where one will do. The first is the node's agent, the others wait
// for it and end as it does, without a word. They meet at a socket in the user's private directory for sockets
// (base/socket_directory.h), named after the step and the node.
std::string mates_name(const Surroundings& here);

// Of the first task, which starts all workers of the node: where Slurm has bound CPUs to tasks it takes those of the
// others too. Returns what to say where that is not allowed.
std::optional<std::string> take_cores_of_mates(const Surroundings& here);
// Its words. Both ascending. Pure.
std::optional<std::string> about_cores(const std::vector<int>& wanted, const std::vector<int>& got);

// Of the first task. The socket is removed with it.
class NodeMates {
 public:
  static Result<NodeMates> open(const std::string& name, int others);
  // Whether one has come; for tests.
  bool wait_for_one(Deadline deadline) const;
  // Gives all of them the exit code; those that have not come by the deadline are not waited for.
  void tell(int code, Deadline deadline);

 private:
  // A file that this process has made: removed when it is no longer needed, by this process only, not by its children.
  class OwnFile {
   public:
    explicit OwnFile(std::string path);
    ~OwnFile();
    OwnFile(OwnFile&& other) noexcept : path_(std::exchange(other.path_, {})), owner_(other.owner_) {}
    OwnFile& operator=(OwnFile&& other) noexcept {
      std::swap(path_, other.path_);
      std::swap(owner_, other.owner_);
      return *this;
    }

   private:
    std::string path_;
    pid_t owner_;
  };

  NodeMates(std::string path, Fd listener, Fd spare, int others)
      : file_(std::move(path)), listener_(std::move(listener)), spare_(std::move(spare)), others_(others) {}
  OwnFile file_;
  Fd listener_;
  Fd spare_;  // a descriptor to accept with, though all others are taken
  int others_;
};

// Of any other: the first one's exit code. Blocks until that has ended; the deadline is for it to appear. Takes no
// notice of signals meanwhile, which the first one gets too.
Result<int> wait_for_first_task(const std::string& name, Deadline deadline);

}  // namespace muster::cluster::slurm
