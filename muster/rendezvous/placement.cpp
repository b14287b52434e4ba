#include <algorithm>
#include <limits>
#include <tuple>

#include "muster/rendezvous/membership.h"

namespace muster::rendezvous {
namespace {

// Who has been in a round first, in its order; then as people gave them; then as they came. So a member is in every
// round while it is connected, and no two nodes were given the same rank.
auto precedence(const Node& node) {
  constexpr int kLast = std::numeric_limits<int>::max();
  return std::tuple(node.group_rank.value_or(kLast), node.join.rank.value_or(kLast), node.join.position.value_or(kLast),
                    node.id);
}

std::vector<NodeId> keep_ranks(const std::vector<const Node*>& chosen) {
  std::vector<NodeId> by_rank(chosen.size(), 0);
  std::vector<const Node*> others;
  for (const Node* node : chosen) {
    auto rank = static_cast<size_t>(node->group_rank.value_or(-1));
    if (rank < by_rank.size())
      by_rank[rank] = node->id;
    else
      others.push_back(node);
  }
  auto hole = by_rank.begin();
  for (const Node* node : others) {
    hole = std::find(hole, by_rank.end(), 0U);
    *hole = node->id;
  }
  return by_rank;
}

}  // namespace

size_t needed_nodes(const MembershipOptions& options) {
  return static_cast<size_t>(options.fixed_ranks ? options.max_nodes : options.min_nodes);
}

size_t most_nodes(const State& state, const MembershipOptions& options) {
  auto most = static_cast<size_t>(options.max_nodes);
  if (options.grow == Grow::kNever && state.round >= 0) most = std::min(most, state.started_with);
  return most;
}

ExpectedHosts expected_hosts(const State& state, const MembershipOptions& options) {
  std::vector<bool> here(static_cast<size_t>(options.expected));
  for (const auto& [id, node] : state.nodes) {
    auto position = static_cast<size_t>(node.join.position.value_or(-1));
    if (position < here.size()) here[position] = true;
  }
  ExpectedHosts hosts;
  const size_t places = state.round < 0 ? most_nodes(state, options) : here.size();
  for (size_t i = 0; i < here.size(); ++i) {
    const int position = static_cast<int>(i);
    if (!here[i] && state.hopeless.contains(position))
      hosts.hopeless.push_back(position);
    else if (hosts.here + hosts.awaited.size() == places)
      continue;  // a spare
    else if (here[i])
      ++hosts.here;
    else
      hosts.awaited.push_back(position);
  }
  if (options.expected == 0) hosts.here = state.nodes.size();
  return hosts;
}

bool had_enough(const State& state) { return state.round >= 0 && !state.gathering; }

bool is_spare(const State& state, NodeId node) {
  auto found = state.nodes.find(node);
  return had_enough(state) && found != state.nodes.end() && found->second.last_round != state.round;
}

std::vector<NodeId> choose_members(const State& state, const MembershipOptions& options) {
  std::vector<const Node*> nodes;
  nodes.reserve(state.nodes.size());
  for (const auto& [id, node] : state.nodes) nodes.push_back(&node);
  std::ranges::sort(nodes, {}, [](const Node* node) { return precedence(*node); });
  nodes.resize(std::min(nodes.size(), most_nodes(state, options)));
  if (!options.fixed_ranks) return keep_ranks(nodes);
  std::ranges::sort(nodes, {}, [](const Node* node) { return node->join.rank; });
  std::vector<NodeId> by_rank;
  by_rank.reserve(nodes.size());
  for (const Node* node : nodes) by_rank.push_back(node->id);
  return by_rank;
}

std::vector<job::Round> place(const State& state, const std::vector<NodeId>& members, int round, int restarts) {
  std::vector<job::Round> rounds(members.size());
  std::map<std::string, int> by_role;
  int world_size = 0;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    const Join& join = state.nodes.at(members[rank]).join;
    int& in_role = by_role[join.role];
    rounds[rank].number = round;
    rounds[rank].restarts = restarts;
    rounds[rank].group_rank = static_cast<int>(rank);
    rounds[rank].group_world_size = static_cast<int>(members.size());
    rounds[rank].first_rank = world_size;
    rounds[rank].first_role_rank = in_role;
    world_size += join.workers;
    in_role += join.workers;
  }
  for (size_t rank = 0; rank < members.size(); ++rank) {
    rounds[rank].world_size = world_size;
    rounds[rank].role_world_size = by_role[state.nodes.at(members[rank]).join.role];
  }
  return rounds;
}

}  // namespace muster::rendezvous
