#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "muster/rendezvous/membership.h"
#include "muster/rendezvous/words.h"

namespace muster::rendezvous {
namespace {

// Where several have named the same number, which is refused only where it counts, it is the first one's.
void forget(std::map<int, NodeId>& named, std::optional<int> number, NodeId node) {
  auto found = number ? named.find(*number) : named.end();
  if (found != named.end() && found->second == node) named.erase(found);
}

bool may_run(const Node& node) { return node.part == Part::kRuns || node.part == Part::kStops; }

bool is_member(const State& state, const Node& node) { return state.round >= 0 && node.last_round == state.round; }

TimePoint safe_at(TimePoint now, const Ghost& ghost) {
  switch (departure(ghost.control, ghost.heartbeat)) {
    case Departure::kGoodbye:
      return now;
    case Departure::kClosed:
      return std::min(ghost.lease_end, now + kCloseMargin);
    case Departure::kSilent:
      break;
  }
  return ghost.lease_end;
}

void note_loss(TimePoint now, State& state, const MembershipOptions& options, const std::string& host) {
  auto& times = state.losses[host];
  std::erase_if(times, [&](TimePoint time) { return now - time > options.loss_window; });
  times.push_back(now);
}

std::optional<std::string> rank_refusal(const State& state, const MembershipOptions& options, const Join& join) {
  if (!join.rank) return fmt::format("{} names no node rank; every node of this job needs --node-rank", join.host);
  if (*join.rank < 0 || *join.rank >= options.max_nodes)
    return fmt::format("{} claims node rank {}; this job has the ranks 0 to {}", join.host, *join.rank,
                       options.max_nodes - 1);
  auto holder = state.by_rank.find(*join.rank);
  if (holder == state.by_rank.end()) return std::nullopt;
  const std::string& host = state.nodes.at(holder->second).join.host;
  if (host == join.host)
    return fmt::format(
        "{} already runs node rank {} of this job; if this is a second job, give each job its own --rdzv-id "
        "or --master-port",
        host, *join.rank);
  return fmt::format("node rank {} is taken by {}; {} claims it too", *join.rank, host, join.host);
}

// An agent whose launcher lost sight of it may come beside the one that was started in its place.
std::optional<std::string> position_refusal(const State& state, const MembershipOptions& options, const Join& join) {
  if (!join.position || *join.position >= options.expected)
    return fmt::format("{} is not among the {} hosts of this job", join.host, options.expected);
  auto holder = state.by_position.find(*join.position);
  if (holder == state.by_position.end()) return std::nullopt;
  return fmt::format("{} has joined already", state.nodes.at(holder->second).join.host);
}

std::string nnodes(int min, int max) { return min == max ? fmt::format("{}", max) : fmt::format("{}:{}", min, max); }

// Where a whole node is killed, a worker may go before its agent: the node is lost, and no worker has failed.
void excuse_who_went_first(State& state) {
  if (!state.failed_node_gone || !state.failure || state.failure->exit_code != kKilled) return;
  state.lost.push_back(*state.failed_node_gone);
  state.stop_reason = loss_text(*state.failed_node_gone);
  state.counts_as_restart = false;
}

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

}  // namespace

std::string signal_reason(const State& state) {
  const std::string signal = signal_text(*state.stop_signal);
  return state.stop_host.empty() ? fmt::format("muster received {}", signal)
                                 : fmt::format("{}'s muster received {}", state.stop_host, signal);
}

Decision end_by_signal(const State& state) {
  constexpr int kSignalBase = 128;
  Decision decision;
  decision.kind = Decision::Kind::kEndJob;
  decision.ending = job::Ending::kSignalled;
  decision.exit_code = kSignalBase + *state.stop_signal;
  decision.reason = signal_reason(state);
  return decision;
}

std::optional<std::string> refusal(TimePoint now, const State& state, const MembershipOptions& options,
                                   const Join& join) {
  if (state.ending) return fmt::format("the job is over ({})", job::ending_name(*state.ending));
  if (state.stop_signal) return "the job has been asked to end";
  bool other_size = (join.min_nodes != 0 && join.min_nodes != options.min_nodes) ||
                    (join.max_nodes != 0 && join.max_nodes != options.max_nodes);
  if (other_size)
    return fmt::format("{} was started with --nnodes {}, this job has --nnodes {}", join.host,
                       nnodes(join.min_nodes, join.max_nodes), nnodes(options.min_nodes, options.max_nodes));
  if (options.fixed_ranks)
    if (auto reason = rank_refusal(state, options, join)) return reason;
  if (options.expected > 0)
    if (auto reason = position_refusal(state, options, join)) return reason;
  auto known = state.losses.find(join.host);
  if (known == state.losses.end()) return std::nullopt;
  auto losses = std::ranges::count_if(known->second, [&](TimePoint time) { return now - time <= options.loss_window; });
  if (losses <= options.losses_allowed) return std::nullopt;
  return fmt::format("{} was lost {} times within {:.0f} s and is not taken again", join.host, losses,
                     std::chrono::duration<double>(options.loss_window).count());
}

std::optional<NodeId> earlier_life(const State& state, const Join& join) {
  auto holder = [&](const std::map<int, NodeId>& named, std::optional<int> number) -> std::optional<NodeId> {
    auto found = number ? named.find(*number) : named.end();
    if (found == named.end() || state.nodes.at(found->second).join.host != join.host) return std::nullopt;
    return found->second;
  };
  auto by_rank = holder(state.by_rank, join.rank);
  return by_rank ? by_rank : holder(state.by_position, join.position);
}

NodeId node_joined(TimePoint now, State& state, const Join& join) {
  NodeId id = state.next_node++;
  Node& node = state.nodes[id];
  node.id = id;
  node.join = join;
  node.joined = node.heard = now;
  if (join.rank) state.by_rank.emplace(*join.rank, id);
  if (join.position) state.by_position.emplace(*join.position, id);
  state.last_join = now;
  return id;
}

void node_heard(TimePoint now, State& state, NodeId node) {
  auto found = state.nodes.find(node);
  if (found != state.nodes.end()) found->second.heard = std::max(found->second.heard, now);
}

void node_pinged(TimePoint now, State& state, NodeId node) {
  auto found = state.nodes.find(node);
  if (found != state.nodes.end()) found->second.unanswered = now;
}

void node_answered(State& state, NodeId node) {
  auto found = state.nodes.find(node);
  if (found != state.nodes.end()) found->second.unanswered.reset();
}

Departure departure(LinkEnd control, LinkEnd heartbeat) {
  if (control == LinkEnd::kGoodbye || heartbeat == LinkEnd::kGoodbye) return Departure::kGoodbye;
  return control == LinkEnd::kClosed && heartbeat == LinkEnd::kClosed ? Departure::kClosed : Departure::kSilent;
}

void node_said_goodbye(State& state, NodeId node) {
  auto found = state.nodes.find(node);
  if (found != state.nodes.end()) found->second.control = LinkEnd::kGoodbye;
}

void heartbeat_ended(TimePoint now, State& state, NodeId node, LinkEnd end) {
  // Nothing takes a goodbye back.
  auto learn = [end](LinkEnd& known) {
    if (known == LinkEnd::kGoodbye || known == end) return false;
    known = end;
    return true;
  };
  if (auto found = state.nodes.find(node); found != state.nodes.end()) learn(found->second.heartbeat);
  for (Ghost& ghost : state.ghosts)
    if (ghost.node == node && learn(ghost.heartbeat)) ghost.safe_at = safe_at(now, ghost);
}

bool ended_by_our_pause(TimePoint now, const State& state, const MembershipOptions& options, const Node& node) {
  return state.paused_until && node.joined < *state.paused_until &&
         now <= *state.paused_until + options.lease + fence_margin(options.lease);
}

void node_gone(TimePoint now, State& state, const MembershipOptions& options, NodeId node, LinkEnd control, Loss loss) {
  auto found = state.nodes.find(node);
  if (found == state.nodes.end()) return;
  Node old = std::move(found->second);
  state.nodes.erase(found);
  forget(state.by_rank, old.join.rank, node);
  forget(state.by_position, old.join.position, node);

  const std::string& host = old.join.host;
  loss.host = host;
  constexpr size_t kRemembered = 64;  // a round can be long, and spares may come and go
  if (state.gone.size() < kRemembered) state.gone.push_back(loss);
  if (may_run(old)) {
    Ghost ghost{.node = node,
                .lease_end = old.heard + options.lease + fence_margin(options.lease),
                .safe_at = {},
                .loss = loss,
                .control = old.control == LinkEnd::kGoodbye ? old.control : control,
                .heartbeat = old.heartbeat};
    ghost.safe_at = safe_at(now, ghost);
    if (ghost.safe_at > now) state.ghosts.push_back(std::move(ghost));
  }
  bool opening = state.round_state == RoundState::kOpening && is_member(state, old) && old.part == Part::kIdle;
  if (may_run(old) || opening) {
    state.lost.push_back(loss);
    state.counts_as_restart = false;
    if (state.round_state == RoundState::kStopping && state.failed_on == host)
      state.stop_reason += "; " + loss_text(loss);
  } else if (state.failed_on == host) {
    state.failed_node_gone = loss;
    excuse_who_went_first(state);
  }
  // Who leaves a running round that it has no part in disturbs nobody; while one is made up, everybody has a part.
  const bool disturbs =
      may_run(old) || opening || state.round_state == RoundState::kStopping || state.failed_on == host;
  if (disturbs && !ended_by_our_pause(now, state, options, old)) note_loss(now, state, options, host);
  // Nobody has workers yet, so there is nothing to tell the others; and the store that opens now is for nothing.
  if (opening) round_stopping(now, state, loss_text(loss), false);
  if (old.part == Part::kDone && is_member(state, old)) state.finished.insert(node);
  if (!state.gathering && state.nodes.size() < needed_nodes(options)) {
    state.gathering = true;
    state.began = now;
  }
}

void host_hopeless(State& state, int position, Error why, TimePoint now) {
  state.hopeless[position] = {std::move(why), now};
}

void host_hopeful(State& state, int position) { state.hopeless.erase(position); }

void round_opened(State& state, const std::vector<NodeId>& members) {
  if (state.counts_as_restart)
    ++state.restarts;
  else
    state.failures.clear();
  ++state.round;
  state.round_state = RoundState::kOpening;
  state.members = members;
  if (state.round == 0) state.started_with = members.size();
  for (auto& [id, node] : state.nodes) node.part = Part::kIdle;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    Node& node = state.nodes.at(members[rank]);
    node.group_rank = static_cast<int>(rank);
    node.last_round = state.round;
  }
  state.gathering = false;
  state.ghosts.clear();
  state.finished.clear();
  state.stop_reason.clear();
  state.counts_as_restart = false;
  state.failed_on.reset();
  state.failed_node_gone.reset();
  state.failure.reset();
  state.lost.clear();
  state.gone.clear();
}

void round_running(State& state) {
  state.round_state = RoundState::kRunning;
  for (NodeId member : state.members) {
    auto found = state.nodes.find(member);
    if (found != state.nodes.end() && found->second.part == Part::kIdle) found->second.part = Part::kRuns;
  }
}

void round_stopping(TimePoint now, State& state, const std::string& reason, bool counts_as_restart) {
  state.round_state = RoundState::kStopping;
  state.stop_reason = reason;
  state.stopped_at = now;
  state.counts_as_restart = counts_as_restart;
  // The members that went while the round went on were not missed until now.
  if (state.gathering) state.began = now;
  for (auto& [id, node] : state.nodes)
    if (node.part == Part::kRuns) node.part = Part::kStops;
}

void worker_failed(State& state, NodeId node, int round) {
  auto found = state.nodes.find(node);
  if (round != state.round || found == state.nodes.end() || state.failed_on || state.stop_signal) return;
  if (is_member(state, found->second)) state.failed_on = found->second.join.host;
}

void round_ended(State& state, NodeId node, int round, bool succeeded) {
  auto found = state.nodes.find(node);
  if (round != state.round || found == state.nodes.end() || !is_member(state, found->second)) return;
  bool no_store = state.round_state == RoundState::kOpening && !succeeded;
  if (!may_run(found->second) && !no_store) return;
  if (!succeeded) worker_failed(state, node, round);
  found->second.part = succeeded ? Part::kDone : Part::kFailed;
}

void judged(State& state, Failure failure) {
  if (!state.failures.empty() && state.failures.back().fingerprint != failure.fingerprint) state.failures.clear();
  state.failures.push_back(failure);
  state.failure = std::move(failure);
  excuse_who_went_first(state);
}

void stop_requested(State& state, int signal, const std::string& host) {
  if (state.stop_signal) return;
  state.stop_signal = signal;
  state.stop_host = host;
}

void kill_requested(TimePoint now, State& state) {
  if (!state.killed_at) state.killed_at = now;
}

void job_ended(State& state, const Decision& decision) { state.ending = decision.ending; }

void paused(TimePoint began, TimePoint now, State& state, const MembershipOptions& options) {
  for (auto& [id, node] : state.nodes) {
    node.heard = now;
    if (node.unanswered) node.unanswered = now;
  }
  // A node that was about to end its workers may have stood still as well.
  for (Ghost& ghost : state.ghosts) {
    if (departure(ghost.control, ghost.heartbeat) == Departure::kGoodbye) continue;
    ghost.lease_end = std::max(ghost.lease_end, now + fence_margin(options.lease));
    ghost.safe_at = std::max(ghost.safe_at, now + kCloseMargin);
  }
  // No node could join, or end its workers' round, meanwhile. What was noted after the pause, before the pause was
  // noticed, stays.
  auto later = [&](TimePoint time) { return std::min(now, time + (now - began)); };
  state.began = later(state.began);
  state.stopped_at = later(state.stopped_at);
  if (state.last_join) state.last_join = later(*state.last_join);
  // The last beat that was echoed was sent up to a beat and a round trip before.
  if (now - began >= options.lease / 2) state.paused_until = now;
}

}  // namespace muster::rendezvous
