#pragma once

#include <sys/socket.h>

#include <optional>

#include "muster/base/clock.h"
#include "muster/base/fd.h"
#include "muster/net/address.h"

namespace muster::agent {

// What agent and warden tell each other: a page of memory that both have, made before they part, and a descriptor that
// wakes the warden. The agent shows that it lives, and in the end its exit code; when it has become a member of a job of
// several nodes it fills in the terms, once. From then on the warden shows until when the lease holds, until the agent
// says that the node needs none any more.
class WardenLink {
 public:
  struct Terms {
    uint32_t node = 0;
    Duration lease{};
    net::Address coordinator;
    TimePoint since;  // when the coordinator was asked to take this node: the lease cannot have begun before
  };

  WardenLink();
  ~WardenLink();
  WardenLink(const WardenLink&) = delete;
  WardenLink& operator=(const WardenLink&) = delete;

  // The agent's side.
  void set_terms(const Terms& terms);
  void pulse(TimePoint now);
  // No worker may run or be started after that: others may run in its place by then.
  TimePoint lease_until() const;
  // No process of the job runs on this node any more, and none will be started: the rest (slow readers of the output, the
  // report) needs no lease, and the coordinator may be gone before it is done.
  void end_lease();
  // Before the agent exits: a thread of it that hangs in the kernel may keep the process from ending.
  void set_exit_code(int code);

  // The warden's side.
  int wake_fd() const { return wake_.get(); }  // readable when there are terms, or an exit code
  void take_wake();                            // it is not readable any more until there is more
  std::optional<Terms> terms() const;
  std::optional<int> exit_code() const;
  TimePoint last_pulse() const;
  void extend_lease(TimePoint until);
  bool lease_has_ended() const;  // end_lease() was called

 private:
  void wake();

  struct Page;
  Page* page_;
  Fd wake_;
};

}  // namespace muster::agent
