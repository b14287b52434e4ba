#include "muster/rendezvous/route.h"

#include <algorithm>

namespace muster::rendezvous {
namespace {

bool on_this_machine(const Route& route) {
  return route.seen.is_loopback() || route.seen.host() == route.reached.host();
}

void add(std::vector<std::string>& list, const std::string& address) {
  if (!address.empty() && std::find(list.begin(), list.end(), address) == list.end()) list.push_back(address);
}

}  // namespace

std::vector<std::string> addresses_towards(const RouteMap& routes, NodeId from, NodeId to) {
  auto source = routes.find(from);
  auto target = routes.find(to);
  if (source == routes.end() || target == routes.end()) return {};
  std::vector<std::string> addresses;
  if (on_this_machine(target->second)) {
    if (from == to) {
      add(addresses, own_address(routes, to));
    } else {
      add(addresses, source->second.reached.host());
    }
  } else {
    add(addresses, target->second.seen.host());
  }
  for (const std::string& address : target->second.own) add(addresses, address);
  return addresses;
}

std::string own_address(const RouteMap& routes, NodeId node) {
  auto found = routes.find(node);
  if (found == routes.end()) return {};
  if (!on_this_machine(found->second)) return found->second.seen.host();
  for (const auto& [id, route] : routes)
    if (!on_this_machine(route)) return route.reached.host();
  return found->second.seen.host();
}

std::vector<std::string> member_addresses(const RouteMap& routes) {
  std::vector<std::string> addresses;
  for (const auto& [id, route] : routes) {
    add(addresses, route.seen.host());
    for (const std::string& address : route.own) add(addresses, address);
  }
  return addresses;
}

}  // namespace muster::rendezvous
