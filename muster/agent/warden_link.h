#pragma once

#include <sys/socket.h>

#include <optional>

#include "muster/base/clock.h"
#include "muster/base/fd.h"
#include "muster/net/address.h"

namespace muster::agent {

// What a member's agent tells its warden: a page of memory that both have, made before they part, and a descriptor that
// wakes the warden. The agent fills it in once, when it has become a member, and from then on shows that it lives. The
// warden shows until when the lease holds.
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
  // No worker may be started after that: others may run in its place by then.
  TimePoint lease_until() const;

  // The warden's side.
  int wake_fd() const { return wake_.get(); }  // readable once there are terms
  std::optional<Terms> terms() const;
  TimePoint last_pulse() const;
  void extend_lease(TimePoint until);

 private:
  struct Page;
  Page* page_;
  Fd wake_;
};

}  // namespace muster::agent
