#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "muster/agent/warden_link.h"
#include "muster/net/event_loop.h"
#include "muster/process/halt.h"
#include "muster/rendezvous/heartbeat.h"

namespace muster::agent {

// The agent's eye on its warden (rendezvous::LeaseWatch has the rules), and the agent's pulse.
//
// When the warden is stopped, as a scheduler does that stops sessions (PBS), everything below the agent is stopped, and
// the agent itself does nothing until the warden goes on: the job on this node stands still as a whole. When the lease
// of this node is over, everything below is stopped until the warden has renewed it.
class WardenWatch {
 public:
  // `warden_fd`: its pidfd. `end`: called once, when the lease is over and cannot be kept otherwise; everything of the
  // job on this node must be killed.
  WardenWatch(net::EventLoop& loop, pid_t warden, int warden_fd, WardenLink& link,
              std::function<void(const std::string& why)> end);
  ~WardenWatch();
  WardenWatch(const WardenWatch&) = delete;
  WardenWatch& operator=(const WardenWatch&) = delete;

 private:
  void look();
  void hold();
  void stand_still();
  bool warden_is_stopped() const;

  net::EventLoop& loop_;
  pid_t warden_;
  int warden_fd_;
  WardenLink& link_;
  std::function<void(const std::string& why)> end_;
  rendezvous::LeaseWatch watch_;
  process::Halt halt_;
  bool ended_ = false;
  net::EventLoop::TimerId timer_ = 0;
};

}  // namespace muster::agent
