// When the coordinator decides, and how a decision is carried out.
#include <algorithm>
#include <csignal>

#include "muster/base/strings.h"
#include "muster/rendezvous/coordinator_impl.h"

namespace muster::rendezvous {
namespace {

// A decision is a walk over the nodes. With so many of them, and messages that come one by one, it waits a little for
// more of them, so that deciding takes a small part of the time however many they are.
constexpr size_t kManyNodes = 512;
constexpr auto kDecisionPausePerNode = std::chrono::microseconds(8);

}  // namespace

// --- Time -----------------------------------------------------------------------------------------------------------

void Coordinator::Impl::tick() {
  tick_timer_ = loop_.call_after(kBeatPeriod, [this] { tick(); });
  listen_to_hearts(Clock::now());
  ping_some();
  decide_soon();
}

// The nodes take turns, so that the work is spread over the period.
void Coordinator::Impl::ping_some() {
  const auto turns = static_cast<uint64_t>(std::max<int64_t>(ping_period(options_.membership.lease) / kBeatPeriod, 1));
  const uint64_t turn = ++ticks_ % turns;
  for (auto& [id, node] : state_.nodes)
    if (id % turns == turn && !node.unanswered) ping(id);
}

void Coordinator::Impl::ping(NodeId node) {
  tell(node, encode(Ping{++peers_[node].pings}));
  node_pinged(Clock::now(), state_, node);
}

// A process that stood still has heard no node. Every pause that can end a lease is noticed.
void Coordinator::Impl::notice_pause(TimePoint now) {
  const Duration late = now - last_tick_, lease = options_.membership.lease;
  const Duration often = std::max<Duration>(2 * kBeatPeriod + std::chrono::seconds(1), lease / 3);
  if (over_ || late <= std::min(often, lease / 2 + kBeatPeriod)) return;
  log_.warn("this process stood still for {}", elapsed_text(late));
  paused(last_tick_, now, state_, options_.membership);
  last_tick_ = now;
}

void Coordinator::Impl::listen_to_hearts(TimePoint now) {
  notice_pause(now);
  last_tick_ = now;
  for (auto& [id, node] : state_.nodes)
    if (auto heard = hearts_.heard(id); heard && *heard > node.heard) node_heard(*heard, state_, id);
}

void Coordinator::Impl::decide_soon() {
  if (std::exchange(deciding_, true)) return;
  const size_t nodes = state_.nodes.size();
  const TimePoint from = decided_ + nodes * kDecisionPausePerNode;
  if (nodes >= kManyNodes && loop_.now() < from) {
    soon_timer_ = loop_.call_at(from, [this] { decide_now(); });
    return;
  }
  loop_.defer([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired() || !*alive.lock()) return;
    decide_now();
  });
}

void Coordinator::Impl::decide_now() {
  deciding_ = false;
  loop_.cancel(wake_timer_);
  loop_.cancel(soon_timer_);
  if (over_) return;
  const TimePoint now = decided_ = Clock::now();
  for (bool listened = false;;) {
    const Decision decision = decide(now, state_, options_.membership);
    // What was heard since the last tick may contradict; it is not looked up for every other decision.
    if (decision.kind == Decision::Kind::kDropNode && !std::exchange(listened, true)) {
      listen_to_hearts(now);
      continue;
    }
    if (decision.reason != told_reason_) {
      told_reason_ = decision.reason;
      client_.changed(state_, decision);
    }
    if (decision.kind == Decision::Kind::kWait) {
      if (decision.wake_at) wake_timer_ = loop_.call_at(*decision.wake_at, [this] { decide_now(); });
      return;
    }
    if (!carry_out(now, decision)) return;
  }
}

// False: the job is over.
bool Coordinator::Impl::carry_out(TimePoint now, const Decision& decision) {
  switch (decision.kind) {
    case Decision::Kind::kWait:
      break;
    case Decision::Kind::kOpenRound:
      open_round(decision);
      break;
    case Decision::Kind::kStopRound:
      stop_round(now, decision);
      break;
    case Decision::Kind::kJudge:
      judge_round();
      break;
    case Decision::Kind::kDropNode:
      lose(decision.node, LinkEnd::kSilent, {ErrorKind::kTimeout, decision.reason, {}});
      break;
    case Decision::Kind::kEndJob:
      end_job(decision);
      return false;
  }
  return true;
}

// --- Rounds ---------------------------------------------------------------------------------------------------------

void Coordinator::Impl::tell(NodeId node, const std::string& encoded) {
  auto peer = peers_.find(node);
  if (peer != peers_.end() && peer->second.channel) peer->second.channel->send(encoded);
}

void Coordinator::Impl::open_round(const Decision& decision) {
  round_opened(state_, decision.members);
  std::erase_if(peers_, [&](const auto& peer) { return !state_.nodes.contains(peer.first); });
  for (auto& [id, peer] : peers_) {
    peer.pids.clear();
    peer.ended.reset();
  }
  started_ = 0;
  tell(state_.members.front(), encode(OpenStore{.round = state_.round, .members = routes_.all()}));
}

void Coordinator::Impl::start_round(uint16_t port) {
  std::vector<StartRound> starts = place(state_, state_.members, state_.round, state_.restarts);
  const NodeId first = state_.members.front();
  for (size_t i = 0; i < state_.members.size(); ++i) {
    const NodeId node = state_.members[i];
    starts[i].master_port = port;
    starts[i].own_address = routes_.own_address(node);
    starts[i].master_addresses =
        options_.master_addr.empty() ? routes_.towards(node, first) : std::vector{options_.master_addr};
    tell(node, encode(starts[i]));
  }
  round_running(state_);
}

void Coordinator::Impl::stop_round(TimePoint now, const Decision& decision) {
  const std::string message = encode(StopRound{
      .round = state_.round, .signal = decision.signal, .grace = options_.stop_grace, .reason = decision.reason});
  for (NodeId member : state_.members) {
    auto node = state_.nodes.find(member);
    if (node != state_.nodes.end() && node->second.part == Part::kRuns) tell(member, message);
  }
  round_stopping(now, state_, decision.reason, decision.counts_as_restart);
}

void Coordinator::Impl::judge_round() {
  std::vector<NodeOutcomes> outcomes;
  for (NodeId member : state_.members) {
    auto peer = peers_.find(member);
    if (peer == peers_.end() || !peer->second.ended) continue;
    outcomes.push_back({.host = peer->second.host,
                        .node = member,
                        .bytes = std::move(peer->second.ended->outcomes),
                        .clock_offset = hearts_.clock_offset(member),
                        .start_error = peer->second.ended->start_error});
  }
  judged(state_, client_.judge(state_.round, outcomes));
}

void Coordinator::Impl::end_job(const Decision& decision) {
  job_ended(state_, decision);
  over_ = true;
  loop_.cancel(tick_timer_);
  loop_.cancel(wake_timer_);
  acceptor_->tell_rest();
  const std::string text = client_.ended(decision);
  const std::string message = encode(EndJob{.exit_code = decision.exit_code, .text = text, .reason = decision.reason});
  const std::string to_spares = encode(EndJob{.exit_code = 0, .text = text, .reason = decision.reason});
  farewell_ = had_enough(state_) ? to_spares : message;
  for (auto& [id, peer] : peers_) {
    const bool asked_to_stop = decision.ending == "signalled" && peer.host == state_.stop_host;
    tell(id, is_spare(state_, id) && !asked_to_stop ? to_spares : message);
  }
  dismiss_answered();
  for (GuestId guest = guests_.begin(); guest != guests_.end(); ++guest)
    if (guest->waits) answer_last(guest, farewell_);
  deserted_soon();
}

void Coordinator::Impl::stop(int signal, const std::string& host) {
  stop_requested(state_, signal, host);
  decide_soon();
}

void Coordinator::Impl::kill() {
  const std::string message =
      encode(StopRound{.round = state_.round, .signal = SIGKILL, .grace = Duration(0), .reason = "killed"});
  for (NodeId member : state_.members) tell(member, message);
  kill_requested(Clock::now(), state_);
  decide_soon();
}

void Coordinator::Impl::pass_signal(int signal) {
  const std::string message = encode(PassSignal{signal});
  for (auto& [id, peer] : peers_) tell(id, message);
}

void Coordinator::Impl::deserted_soon() {
  if (!over_ || !on_deserted_ || std::exchange(looking_round_, true)) return;
  loop_.defer([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired() || !*alive.lock()) return;
    looking_round_ = false;
    if (connected_ == 0 && guests_.empty() && output_.connections() == 0 && on_deserted_) on_deserted_();
  });
}

}  // namespace muster::rendezvous
