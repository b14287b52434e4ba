#include "muster/rendezvous/route.h"

#include <algorithm>
#include <unordered_set>

namespace muster::rendezvous {

void Routes::add(NodeId node, const net::Address& seen, const net::Address& reached, std::vector<std::string> own,
                 bool own_first) {
  Route& route = routes_[node];
  route = {.seen = seen.host(),
           .reached = reached.host(),
           .on_this_machine = false,
           .own = std::move(own),
           .own_first = own_first};
  route.on_this_machine = seen.is_loopback() || route.seen == route.reached;
  if (!route.on_this_machine) elsewhere_.insert(node);
}

void Routes::remove(NodeId node) {
  routes_.erase(node);
  elsewhere_.erase(node);
}

const Routes::Route* Routes::find(NodeId node) const {
  auto found = routes_.find(node);
  return found == routes_.end() ? nullptr : &found->second;
}

std::string Routes::seen(NodeId node) const {
  const Route* route = find(node);
  return route == nullptr ? std::string() : route->seen;
}

std::vector<std::string> Routes::towards(NodeId from, NodeId to) const {
  const Route* source = find(from);
  const Route* target = find(to);
  if (source == nullptr || target == nullptr) return {};
  std::vector<std::string> addresses;
  auto add = [&](const std::string& address) {
    if (!address.empty() && std::find(addresses.begin(), addresses.end(), address) == addresses.end())
      addresses.push_back(address);
  };
  const std::string seen = target->on_this_machine && from != to ? source->reached : own_address(to);
  if (!target->own_first) add(seen);
  for (const std::string& address : target->own) add(address);
  add(seen);
  return addresses;
}

std::string Routes::own_address(NodeId node) const {
  const Route* route = find(node);
  if (route == nullptr) return {};
  return route->on_this_machine && !elsewhere_.empty() ? routes_.at(*elsewhere_.begin()).reached : route->seen;
}

std::vector<std::string> Routes::all() const {
  std::vector<std::string> addresses;
  std::unordered_set<std::string_view> known;
  auto add = [&](const std::string& address) {
    if (addresses.size() < kMostElements && !address.empty() && known.insert(address).second)
      addresses.push_back(address);
  };
  for (const auto& [id, route] : routes_) add(route.seen);
  for (const auto& [id, route] : routes_)
    for (const std::string& address : route.own) add(address);
  return addresses;
}

}  // namespace muster::rendezvous
