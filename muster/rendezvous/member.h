#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/net/address.h"
#include "muster/net/event_loop.h"
#include "muster/rendezvous/channel.h"
#include "muster/rendezvous/protocol.h"

namespace muster::rendezvous {

// An agent's side of the control connection: finds the coordinator, joins, then is told what to do. One life is one
// membership: when the connection is lost the agent ends its workers and itself, and does not come back. Answers each
// Ping; if none comes for a lease, the coordinator is lost.
class Member {
 public:
  struct Handlers {
    std::function<void(const Message&)> told;              // Welcome first, or EndJob alone; never Refuse or Ping
    std::function<void(const Error& why)> refused;         // by the coordinator, or none was found in time. The end.
    std::function<void(const Error& why)> lost;            // the connection, after Welcome, or no Ping for a lease
    std::function<void(const std::string& what)> waiting;  // still not there: "10.0.0.1:29400: connection refused"
  };
  // `coordinators`: endpoints, see Finder.
  Member(net::EventLoop& loop, const job::Token& token, const std::vector<std::string>& coordinators, Join join,
         Deadline join_by, Handlers handlers);
  ~Member();

  void tell(const Message& message);
  size_t unsent() const;  // bytes; 0 without a connection
  // The local address of the control connection; empty before Welcome.
  std::string local_address() const;
  TimePoint join_sent() const;  // only after Welcome
  // The address at which the coordinator was reached, for the connections that follow; only after Welcome or EndJob.
  const net::Address& coordinator() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::rendezvous
