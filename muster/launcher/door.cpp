#include "muster/launcher/door.h"

#include <algorithm>

#include "muster/agent/round_store.h"
#include "muster/net/interfaces.h"

namespace muster::launcher {

Result<net::Listener> open_door(const job::PortRange& ports) {
  if (ports.first == 0) return net::listen_tcp({});
  for (uint16_t port : agent::ports_to_try(ports)) {
    auto listener = net::listen_tcp({.port = port});
    if (listener) return listener;
  }
  return Error{ErrorKind::kUsage,
               fmt::format("--port-range: every port from {} to {} is taken", ports.first, ports.last),
               "give a wider range"};
}

std::vector<uint16_t> derived_ports(std::string_view id) {
  // Below what kernels give to clients (32768 and up), above the well-known ones. FNV-1a: any even spread will do.
  constexpr uint32_t kLowest = 20000, kCount = 12000, kCandidates = 16;
  uint32_t hash = 2166136261u;
  for (char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  std::vector<uint16_t> ports;
  for (uint32_t step = 0; step < kCandidates; ++step)
    ports.push_back(static_cast<uint16_t>(kLowest + (hash % kCount + step * 743) % kCount));
  return ports;
}

std::vector<uint16_t> derived_ports(uint16_t first, std::string_view id) {
  std::vector<uint16_t> ports = derived_ports(id);
  const size_t count = ports.size();
  std::erase(ports, first);
  ports.insert(ports.begin(), first);
  ports.resize(count);
  return ports;
}

Result<std::vector<std::string>> own_endpoints(uint16_t port, const std::string& interface,
                                               const std::vector<std::string>& hosts) {
  std::vector<net::InterfaceAddress> all = net::interface_addresses();
  if (!interface.empty()) {
    auto chosen = net::select_interfaces(all, interface);
    if (!chosen) return Error{ErrorKind::kUsage, "--interface: " + chosen.error().message, chosen.error().hint};
    all = *std::move(chosen);
  }
  std::vector<std::string> addresses;
  for (const net::InterfaceAddress& each : all)
    if (!each.loopback || !interface.empty()) addresses.push_back(each.address.host());
  // A numeric host tells the way without asking anybody.
  for (const std::string& host : hosts) {
    auto numeric = net::parse_address(host, 0);
    auto source = numeric ? net::source_address_towards(*numeric) : Result<net::Address>(numeric.error());
    if (!source) continue;
    auto found = std::find(addresses.begin(), addresses.end(), source->host());
    if (found != addresses.end()) std::rotate(addresses.begin(), found, found + 1);
    break;
  }
  if (addresses.empty())
    return Error{ErrorKind::kUsage, "this machine has no address but loopback's, which no other machine can reach",
                 "bring up a network interface"};
  std::vector<std::string> endpoints;
  endpoints.reserve(addresses.size());
  for (const std::string& address : addresses) endpoints.push_back(net::endpoint_text(address, port));
  return endpoints;
}

}  // namespace muster::launcher
