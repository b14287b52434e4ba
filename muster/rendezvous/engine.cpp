#include "muster/rendezvous/engine.h"

#include <csignal>

#include "muster/base/random.h"

namespace muster::rendezvous {
namespace {

// A decision is a walk over the nodes. With so many of them, and messages that come one by one, it waits a little for
// more of them, so that deciding takes a small part of the time however many they are.
constexpr size_t kManyNodes = 512;
constexpr auto kDecisionPausePerNode = std::chrono::microseconds(8);

}  // namespace

Engine::Engine(net::EventLoop& loop, EngineOptions options, Links& links, EngineClient& client)
    : loop_(loop), options_(std::move(options)), links_(links), client_(client) {
  if (options_.job.empty()) options_.job = random_job_id();
  state_.began = Clock::now();
}

Engine::~Engine() {
  loop_.cancel(wake_timer_);
  loop_.cancel(soon_timer_);
}

// --- What the nodes do and say --------------------------------------------------------------------------------------

NodeId Engine::join(const Join& join) {
  const NodeId node = node_joined(Clock::now(), state_, join);
  told_[node].host = join.host;
  client_.joined(state_.nodes.at(node));
  decide_soon();
  return node;
}

bool Engine::received(NodeId node, const Message& message) {
  if (!state_.nodes.contains(node)) return true;
  const auto take = [&](const auto* each) {
    if (each != nullptr) on(node, *each);
    return each != nullptr;
  };
  const bool known = take(std::get_if<StoreOpened>(&message)) || take(std::get_if<RoundStarted>(&message)) ||
                     take(std::get_if<WorkerFailed>(&message)) || take(std::get_if<RoundEnded>(&message)) ||
                     take(std::get_if<StopRequest>(&message));
  if (known && !std::holds_alternative<RoundStarted>(message)) decide_soon();
  return known;
}

void Engine::on(NodeId node, const StoreOpened& opened) {
  if (state_.round_state != RoundState::kOpening || opened.round != state_.round || state_.members.front() != node)
    return;
  if (opened.error.empty()) return start_round(opened.port);
  told_[node].ended =
      RoundEnded{.round = opened.round, .succeeded = false, .outcomes = {}, .start_error = opened.error};
  round_ended(state_, node, opened.round, false);
}

void Engine::on(NodeId node, const RoundStarted& started) {
  if (started.round != state_.round) return;
  std::vector<int>& pids = told_[node].pids;
  const bool news = pids.empty() && !started.pids.empty() && state_.nodes.at(node).last_round == state_.round;
  pids = started.pids;
  if (news && ++started_ == state_.members.size()) client_.round_started(state_);
}

void Engine::on(NodeId node, const WorkerFailed& failed) {
  if (failed.round == state_.round && state_.round_state == RoundState::kRunning)
    client_.worker_failed(state_.nodes.at(node), failed);
  worker_failed(state_, node, failed.round);
  decide_now();  // its peers are told at once
}

void Engine::on(NodeId node, const RoundEnded& ended) {
  if (ended.round == state_.round) told_[node].ended = ended;
  round_ended(state_, node, ended.round, ended.succeeded);
}

void Engine::on(NodeId node, const StopRequest& request) {
  if (std::exchange(told_[node].asked_to_stop, true)) return kill();  // it asks again
  stop(request.signal, state_.nodes.at(node).join.host);
}

void Engine::gone(NodeId node, LinkEnd control, const Loss& loss) {
  auto found = state_.nodes.find(node);
  if (found == state_.nodes.end()) return;
  const TimePoint now = Clock::now();
  Node known = found->second;
  known.ended_by_our_pause = ended_by_our_pause(now, state_, options_.membership, known);
  node_gone(now, state_, options_.membership, node, control, loss);
  if (auto told = told_.find(node); told != told_.end() && !told->second.ended) told_.erase(told);
  routes_.remove(node);
  if (!over_) client_.gone(known, loss);
  decide_soon();
}

const std::vector<int>& Engine::pids(NodeId node) const {
  static const std::vector<int> nobody;
  auto told = told_.find(node);
  return told == told_.end() ? nobody : told->second.pids;
}

// --- Decisions ------------------------------------------------------------------------------------------------------

void Engine::decide_soon() {
  if (std::exchange(deciding_, true)) return;
  const size_t nodes = state_.nodes.size();
  const TimePoint from = decided_ + nodes * kDecisionPausePerNode;
  if (nodes >= kManyNodes && loop_.now() < from) {
    soon_timer_ = loop_.call_at(from, [this] { decide_now(); });
    return;
  }
  loop_.defer([this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) decide_now();
  });
}

void Engine::decide_now() {
  deciding_ = false;
  loop_.cancel(wake_timer_);
  loop_.cancel(soon_timer_);
  if (over_) return;
  const TimePoint now = decided_ = Clock::now();
  for (bool listened = false;;) {
    const Decision decision = decide(now, state_, options_.membership);
    // What was heard since the last time may contradict; it is not looked up for every other decision.
    if (decision.kind == Decision::Kind::kDropNode && !std::exchange(listened, true)) {
      links_.listen(now);
      continue;
    }
    const bool waits_on = decision.kind == Decision::Kind::kWait && decision.reason == told_reason_;
    told_reason_ = decision.reason;
    if (!waits_on) client_.changed(state_, decision);
    if (decision.kind == Decision::Kind::kWait) {
      if (decision.wake_at) wake_timer_ = loop_.call_at(*decision.wake_at, [this] { decide_now(); });
      return;
    }
    if (!carry_out(now, decision)) return;
  }
}

// False: the job is over.
bool Engine::carry_out(TimePoint now, const Decision& decision) {
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
      judged(state_, client_.judge(state_.round, take_outcomes()));
      break;
    case Decision::Kind::kDropNode:
      links_.drop(decision.node, decision.loss);
      break;
    case Decision::Kind::kEndJob:
      end_job(decision);
      return false;
  }
  return true;
}

void Engine::open_round(const Decision& decision) {
  round_opened(state_, decision.members);
  std::erase_if(told_, [&](const auto& told) { return !state_.nodes.contains(told.first); });
  for (auto& [id, told] : told_) {
    told.pids.clear();
    told.ended.reset();
  }
  started_ = 0;
  links_.tell({state_.members.front()}, OpenStore{.round = state_.round, .members = routes_.all()});
}

void Engine::start_round(uint16_t port) {
  std::vector<job::Round> rounds = place(state_, state_.members, state_.round, state_.restarts);
  const NodeId first = state_.members.front();
  for (size_t i = 0; i < state_.members.size(); ++i) {
    const NodeId node = state_.members[i];
    rounds[i].master_port = port;
    links_.tell({node}, StartRound{.round = std::move(rounds[i]),
                                   .master_addresses = options_.master_addr.empty() ? routes_.towards(node, first)
                                                                                    : std::vector{options_.master_addr},
                                   .own_address = routes_.own_address(node)});
  }
  round_running(state_);
}

void Engine::stop_round(TimePoint now, const Decision& decision) {
  std::vector<NodeId> running;
  for (NodeId member : state_.members)
    if (auto node = state_.nodes.find(member); node != state_.nodes.end() && node->second.part == Part::kRuns)
      running.push_back(member);
  links_.tell(
      running,
      StopRound{
          .round = state_.round, .signal = decision.signal, .grace = options_.stop_grace, .reason = decision.reason});
  round_stopping(now, state_, decision.reason, decision.counts_as_restart);
}

std::vector<NodeOutcomes> Engine::take_outcomes() {
  std::vector<NodeOutcomes> outcomes;
  for (NodeId member : state_.members) {
    auto told = told_.find(member);
    if (told == told_.end() || !told->second.ended) continue;
    outcomes.push_back({.host = told->second.host,
                        .node = member,
                        .bytes = std::move(told->second.ended->outcomes),
                        .clock_offset = links_.clock_offset(member),
                        .start_error = told->second.ended->start_error});
  }
  return outcomes;
}

void Engine::end_job(const Decision& decision) {
  job_ended(state_, decision);
  over_ = true;
  EndJob end{.exit_code = decision.exit_code,
             .text = client_.ended(decision, state_.failure ? std::vector<NodeOutcomes>() : take_outcomes()),
             .reason = decision.reason};
  std::vector<NodeId> members, spares;
  for (const auto& [id, told] : told_) {
    const bool asked_to_stop = decision.ending == job::Ending::kSignalled && told.host == state_.stop_host;
    (is_spare(state_, id) && !asked_to_stop ? spares : members).push_back(id);
  }
  EndJob to_spares = end;
  to_spares.exit_code = 0;
  links_.tell(members, end);
  links_.tell(spares, to_spares);
  links_.over(had_enough(state_) ? to_spares : end);
}

// --- Signals --------------------------------------------------------------------------------------------------------

void Engine::stop(int signal, const std::string& host) {
  stop_requested(state_, signal, host);
  decide_soon();
}

void Engine::stop_late(int signal) {
  if (state_.ending != job::Ending::kSucceeded) return;
  stop_requested(state_, signal);
  const Decision decision = end_by_signal(state_);
  client_.changed(state_, decision);
  end_job(decision);
}

void Engine::kill() {
  links_.tell(state_.members,
              StopRound{.round = state_.round, .signal = SIGKILL, .grace = Duration(0), .reason = "killed"});
  kill_requested(Clock::now(), state_);
  decide_soon();
}

void Engine::pass_signal(int signal) {
  std::vector<NodeId> all;
  all.reserve(state_.nodes.size());
  for (const auto& [id, node] : state_.nodes) all.push_back(id);
  links_.tell(all, PassSignal{signal});
}

}  // namespace muster::rendezvous
