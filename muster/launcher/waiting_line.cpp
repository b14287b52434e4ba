#include <algorithm>

#include "muster/launcher/head.h"

// Whom a job waits for, in words.
namespace muster::launcher {

using rendezvous::State;

namespace {

constexpr size_t kNamedHosts = 4;

// Each with what is known of it.
std::vector<std::string> named(const std::vector<int>& positions, const rendezvous::MembershipOptions& membership,
                               const std::map<int, std::string>& notes) {
  std::vector<std::string> names;
  for (int position : positions) {
    const auto index = static_cast<size_t>(position);
    std::string name =
        index < membership.expected_hosts.size() ? membership.expected_hosts[index] : fmt::format("node {}", position);
    if (auto note = notes.find(position); note != notes.end() && !note->second.empty())
      name += fmt::format(" ({})", note->second);
    names.push_back(std::move(name));
  }
  return names;
}

// Of a static rendezvous: "node rank 2" is all that can be said of a node that nobody has heard of.
std::vector<std::string> missing_ranks(const State& state, const rendezvous::MembershipOptions& membership) {
  std::vector<std::string> missing;
  for (int rank = 0; rank < membership.max_nodes; ++rank)
    if (std::none_of(state.nodes.begin(), state.nodes.end(),
                     [&](const auto& node) { return node.second.join.rank == rank; }))
      missing.push_back(fmt::format("{}{}", missing.empty() ? "node rank " : "", rank));
  return missing;
}

}  // namespace

std::string waiting_line(const State& state, const rendezvous::MembershipOptions& membership,
                         const std::map<int, std::string>& notes) {
  const rendezvous::ExpectedHosts hosts = rendezvous::expected_hosts(state, membership);
  const auto wanted = static_cast<size_t>(membership.expected > 0 ? std::min(membership.expected, membership.max_nodes)
                                                                  : membership.max_nodes);
  std::string line = fmt::format("{} of {} node{}", hosts.here, wanted, wanted == 1 ? "" : "s");
  std::vector<std::string> missing =
      membership.fixed_ranks ? missing_ranks(state, membership) : named(hosts.awaited, membership, notes);
  if (missing.empty() && membership.expected == 0) {
    const size_t needed = rendezvous::needed_nodes(membership);
    if (state.nodes.size() >= needed) return line + " · last call";
    return needed < wanted ? fmt::format("{} · {} {} needed", line, needed, needed == 1 ? "is" : "are") : line;
  }
  if (missing.empty()) return line;
  const size_t shown = std::min(missing.size(), kNamedHosts);
  line += fmt::format(" · waiting for {}",
                      fmt::join(missing.begin(), missing.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (missing.size() > shown) line += fmt::format(" and {} more", missing.size() - shown);
  return line;
}

}  // namespace muster::launcher
