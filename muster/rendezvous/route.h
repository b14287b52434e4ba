#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "muster/net/address.h"
#include "muster/rendezvous/protocol.h"

namespace muster::rendezvous {

// What the coordinator knows about the ways to its nodes: no names, and nothing that a node merely believes of itself
// unless nothing better is known. No I/O.
class Routes {
 public:
  // `seen`: where its connection comes from. `reached`: the address of ours that it reached. `own`: what it says of its
  // interfaces. `own_first`: whoever started it chose those, so they come before what was seen.
  void add(NodeId node, const net::Address& seen, const net::Address& reached, std::vector<std::string> own,
           bool own_first = false);
  void remove(NodeId node);

  // Where its connection comes from; empty: it has none.
  std::string seen(NodeId node) const;
  // Where `from` may find `to`, best first. A node on the coordinator's machine is found where others have reached the
  // coordinator; two nodes on that machine find each other on loopback.
  std::vector<std::string> towards(NodeId from, NodeId to) const;
  // A node's address as its peers reach it; loopback only when all are on one machine.
  std::string own_address(NodeId node) const;
  // Every address that a connection of a member may come from: where they were seen first, and no more than a message
  // may hold.
  std::vector<std::string> all() const;

 private:
  struct Route {
    std::string seen, reached;
    bool on_this_machine = false;
    std::vector<std::string> own;
    bool own_first = false;
  };
  const Route* find(NodeId node) const;

  std::map<NodeId, Route> routes_;
  std::set<NodeId> elsewhere_;  // not on the coordinator's machine
};

}  // namespace muster::rendezvous
