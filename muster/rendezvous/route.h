#pragma once

#include <map>
#include <string>
#include <vector>

#include "muster/net/address.h"
#include "muster/rendezvous/protocol.h"

namespace muster::rendezvous {

// What the coordinator knows about the way to a node: no names, and nothing that the node merely believes of itself
// unless nothing better is known.
struct Route {
  net::Address seen;             // where its connection comes from
  net::Address reached;          // the address of ours that it reached
  std::vector<std::string> own;  // what it says of its interfaces
};
using RouteMap = std::map<NodeId, Route>;

// All pure.

// Where `from` may find `to`, best first. A node on the coordinator's machine is found where others have reached the
// coordinator; two nodes on that machine find each other on loopback.
std::vector<std::string> addresses_towards(const RouteMap& routes, NodeId from, NodeId to);

// A node's address as its peers reach it; loopback only when all are on one machine.
std::string own_address(const RouteMap& routes, NodeId node);

// Every address that a connection of a member may come from.
std::vector<std::string> member_addresses(const RouteMap& routes);

}  // namespace muster::rendezvous
