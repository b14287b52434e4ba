// The coordinator's loop around decide(), and what must hold whenever it has decided.

#include <fmt/format.h>

#include "muster/rendezvous/test/simulator.h"

namespace muster::rendezvous::sim {

using Kind = Decision::Kind;

// --- what agents say ------------------------------------------------------------------------------------------------

void World::on_join(Life& life) {
  if (!life.connected || over_) return;
  if (auto reason = refusal(now_, state_, options_, life.join)) {
    if (reason->find("was lost") != std::string::npos && own_losses_[life.host->name] <= options_.losses_allowed)
      violate(fmt::format("{} is refused for what the coordinator's own pauses did", life.host->name));
    if (tracing_) say("refused: " + *reason);
    life.connected = false;
    send(life, life.down, Direction::kDown, [this, &life] { end_life(life, "refused"); });
    return;
  }
  NodeId id = node_joined(now_, state_, life.join);
  life.heard = now_;
  by_id_[id] = &life;
  life.id = id;
  send(life, life.down, Direction::kDown, [this, &life, id] { welcome(life, id); });
  turn();
}

void World::on_beat(Life& life, TimePoint sent) {
  bool stands = life.connected && state_.nodes.contains(life.id);
  if (stands) {
    life.heard = now_;
    node_heard(now_, state_, life.id);
  }
  send(life, life.echoes, Direction::kDown, [this, &life, sent, stands] { echo(life, sent, stands); });
}

void World::on_closed(Life& life, LinkEnd end) {
  if (!life.connected) return;
  life.connected = false;
  if (!rules_.doubt_closed_connections) heartbeat_ended(now_, state_, life.id, end = LinkEnd::kClosed);
  if (state_.nodes.contains(life.id)) gone(life, end, {.detail = "closed by its agent"});
  turn();
}

void World::on_heartbeat_ended(Life& life, LinkEnd end) {
  heartbeat_ended(now_, state_, life.id, end);
  if (end == LinkEnd::kGoodbye && life.connected && state_.nodes.contains(life.id)) {
    life.connected = false;
    gone(life, LinkEnd::kSilent, {.cause = Loss::Cause::kLeft});
  }
  turn();
}

void World::ping_all() {
  after(ping_period(options_.lease), [this] { ping_all(); });
  if (coordinator_frozen_ || over_) return;
  for (const auto& [id, node] : state_.nodes) {
    if (node.unanswered) continue;
    Life& life = *by_id_.at(id);
    life.pinged = now_;
    node_pinged(now_, state_, id);
    send(life, life.down, Direction::kDown, [this, &life] {
      if (life.alive) send(life, life.up, Direction::kUp, [this, &life] { on_pong(life); });
    });
  }
  turn();
}

void World::on_pong(Life& life) {
  if (life.connected) node_answered(state_, life.id);
}

bool World::ended_by_pause(const Life& life) const {
  const Duration patience = options_.lease + fence_margin(options_.lease);
  return long_pause_ended_ && state_.nodes.at(life.id).joined < *long_pause_ended_ &&
         now_ <= *long_pause_ended_ + patience;
}

void World::on_worker_failed(Life& life, int round) {
  if (!life.connected) return;
  note_failure(life, round);
  worker_failed(state_, life.id, round);
  turn();
}

void World::on_round_ended(Life& life, int round, bool succeeded) {
  if (!life.connected) return;
  if (!succeeded) note_failure(life, round);
  round_ended(state_, life.id, round, succeeded);
  turn();
}

void World::on_store_opened(Life& life, int round, bool ok) {
  if (!life.connected || round != state_.round || state_.round_state != RoundState::kOpening) return;
  if (ok) {
    start_round();
  } else {
    note_failure(life, round);
    truth_[round].no_store = true;
    round_ended(state_, life.id, round, false);
  }
  turn();
}

void World::note_failure(const Life& life, int round) {
  RoundTruth& truth = truth_[round];
  if (round != state_.round || truth.stopped) return;
  truth.failed = true;
  if (truth.first_failed == nullptr) truth.first_failed = &life;
}

// Whoever killed the worker has killed its node: that is a loss, whichever of the two was seen first.
void World::excuse(RoundTruth& truth) {
  if (!truth.killed || !truth.first_failed_gone || truth.lost) return;
  truth.lost = true;
  ++outcome_.excused;
}

void World::gone(Life& life, LinkEnd control, const Loss& loss) {
  if (tracing_) say(fmt::format("gone: {}: {}", life.host->name, cause_text(loss)));
  const Node& node = state_.nodes.at(life.id);
  bool ended = node.part == Part::kDone || node.part == Part::kFailed;
  bool over = state_.round_state == RoundState::kStopping && node.part == Part::kIdle;
  if (state_.round >= 0 && node.last_round == state_.round && !ended && !over) truth_[state_.round].lost = true;
  ++outcome_.losses;
  if (!ended_by_pause(life)) ++own_losses_[life.host->name];
  node_gone(now_, state_, options_, life.id, control, loss);
  if (!rules_.fence_lost_nodes) state_.ghosts.clear();
  if (RoundTruth& truth = truth_[state_.round]; truth.first_failed == &life) {
    truth.first_failed_gone = true;
    excuse(truth);
  }
}

// --- the loop -------------------------------------------------------------------------------------------------------

void World::turn() {
  if (!lazy_turns_) return decide_all();
  if (turn_due_) return;
  turn_due_ = true;
  after(std::chrono::milliseconds(1), [this] {
    turn_due_ = false;
    decide_all();
  });
}

void World::decide_all() {
  if (coordinator_frozen_) return;
  for (int i = 0; !over_ && outcome_.violation.empty(); ++i) {
    Decision decision = decide(now_, state_, options_);
    if (tracing_ && decision.kind != Kind::kWait) say("decided: " + decision.reason);
    if (decision.kind == Kind::kWait) {
      check_waiting(decision);
      if (!decision.wake_at) return;
      uint64_t timer = ++timer_;
      at(*decision.wake_at, [this, timer] {
        if (timer == timer_) decide_all();
      });
      return;
    }
    if (decision.reason.empty()) violate("a decision without a reason");
    if (i > 1000) violate("decides for ever: " + decision.reason);
    apply(decision);
  }
}

void World::apply(const Decision& decision) {
  switch (decision.kind) {
    case Kind::kOpenRound:
      return open_round(decision);
    case Kind::kStopRound:
      return stop_round(decision);
    case Kind::kJudge:
      return judge_round();
    case Kind::kEndJob:
      return end_job(decision);
    case Kind::kWait:
      return;
    case Kind::kDropNode:
      break;
  }
  Life& life = *by_id_.at(decision.node);
  const Duration patience = options_.lease + fence_margin(options_.lease);
  const bool silent = now_ - life.heard >= patience;
  const bool mute = state_.nodes.at(life.id).unanswered && now_ - life.pinged >= patience;
  if (!silent && !mute) violate(fmt::format("{} is dropped and was heard in time", life.host->name));
  if (now_ - coordinator_paused_ < patience)
    violate(fmt::format("{} is dropped because nobody listened", life.host->name));
  life.connected = false;
  gone(life, LinkEnd::kSilent, decision.loss);
  send(life, life.down, Direction::kDown, [this, &life] { end_life(life, "dropped"); });
}

void World::open_round(const Decision& decision) {
  RoundTruth last = truth_[state_.round];
  size_t size = decision.members.size();
  if (size < needed_nodes(options_) || size > static_cast<size_t>(options_.max_nodes))
    violate(fmt::format("a round of {} nodes", size));
  for (NodeId member : decision.members)
    if (!state_.nodes.contains(member) || !by_id_.at(member)->connected) return violate("a member that is gone");
  check_first_members(decision.members);
  round_opened(state_, decision.members);
  bool restart = last.failed && !last.lost;
  if (state_.restarts != last.restarts + (restart ? 1 : 0)) violate("restarts are not counted right");
  if (state_.restarts > options_.max_restarts) violate("more restarts than allowed");
  truth_[state_.round].size = size;
  truth_[state_.round].restarts = state_.restarts;
  Life& first = *by_id_.at(decision.members[0]);
  send(first, first.down, Direction::kDown, [this, &first, round = state_.round] {
    if (!first.alive) return;
    bool ok = !random_.chance(store_fail_chance_);
    send(first, first.up, Direction::kUp, [this, &first, round, ok] { on_store_opened(first, round, ok); });
  });
}

// Before the time to join is over nobody is passed over who may still come.
void World::check_first_members(const std::vector<NodeId>& members) {
  if (state_.round >= 0 || options_.expected == 0 || now_ >= state_.began + options_.join_timeout) return;
  std::set<int> chosen;
  for (NodeId member : members) chosen.insert(*state_.nodes.at(member).join.position);
  for (int position = 0; position < *chosen.rbegin(); ++position)
    if (!chosen.contains(position) && !state_.hopeless.contains(position))
      violate(fmt::format("the first round is for {} and not for {}, which may come", *chosen.rbegin(), position));
}

void World::check_ranks(const std::vector<job::Round>& starts) {
  std::map<std::string, int> in_role;
  int next = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const Join& join = state_.nodes.at(state_.members[i]).join;
    if (starts[i].group_rank != static_cast<int>(i) || starts[i].first_rank != next) violate("ranks have a hole");
    if (starts[i].first_role_rank != in_role[join.role]) violate("role ranks have a hole");
    if (options_.fixed_ranks && join.rank != starts[i].group_rank) violate("not the rank that was asked for");
    next += join.workers;
    in_role[join.role] += join.workers;
  }
  for (size_t i = 0; i < starts.size(); ++i) {
    const Join& join = state_.nodes.at(state_.members[i]).join;
    if (starts[i].world_size != next || starts[i].role_world_size != in_role[join.role]) violate("sizes differ");
    if (starts[i].group_world_size != static_cast<int>(starts.size())) violate("group sizes differ");
  }
}

void World::start_round() {
  auto starts = place(state_, state_.members, state_.round, state_.restarts);
  check_ranks(starts);
  round_running(state_);
  for (size_t i = 0; i < starts.size(); ++i) {
    Life& life = *by_id_.at(state_.members[i]);
    send(life, life.down, Direction::kDown, [this, &life, start = starts[i]] { told_to_start(life, start); });
  }
}

void World::stop_round(const Decision& decision) {
  truth_[state_.round].stopped = true;
  truth_[state_.round].stopped_at = now_;
  std::vector<Life*> told;
  for (const auto& [id, node] : state_.nodes)
    if (node.part == Part::kRuns) told.push_back(by_id_.at(id));
  round_stopping(now_, state_, decision.reason, decision.counts_as_restart);
  for (Life* life : told)
    send(*life, life->down, Direction::kDown, [this, life, round = state_.round] { stop_workers(*life, round); });
}

void World::judge_round() {
  RoundTruth& truth = truth_[state_.round];
  if (!truth.failed) violate("judges a round in which nobody failed");
  if (truth.lost) violate("judges a round in which a node was lost");
  Failure failure;
  failure.fingerprint = random_.chance(0.8) ? "the usual" : "another";
  failure.after = random_.time(0, 20);
  failure.text = "rank 0 on n0: exit code 3";
  truth.killed = !truth.no_store && random_.chance(0.4);
  failure.exit_code = truth.killed ? kKilled : random_.between(1, 3);
  failure.can_restart = !truth.no_store && random_.chance(0.97);
  judged_.push_back(failure);
  judged(state_, failure);
  excuse(truth);
}

void World::thaw_coordinator() {
  if (!coordinator_frozen_) return;
  if (tracing_) say("coordinator thaws");
  if (now_ - *coordinator_frozen_ > std::chrono::seconds(1)) {
    const TimePoint began = *coordinator_frozen_;
    if (now_ - began >= options_.lease / 2) long_pause_ended_ = now_;
    paused(rules_.excuse_own_pauses ? began : now_, now_, state_, options_);
    coordinator_paused_ = now_;
  }
  coordinator_thawed_ = now_;
  coordinator_frozen_.reset();
  std::vector<Step> inbox = std::move(coordinator_inbox_);
  coordinator_inbox_.clear();
  for (const Step& step : inbox) step();
  turn();
}

// --- what must hold -------------------------------------------------------------------------------------------------

void World::check_waiting(const Decision& decision) {
  if (decision.reason.empty()) violate("a wait without a reason");
  if (decision.wake_at && *decision.wake_at <= now_) violate("a wait that is over: " + decision.reason);
  if (state_.round_state != RoundState::kRunning) return;
  size_t idle = 0;
  for (const auto& [id, node] : state_.nodes)
    if (node.last_round != state_.round) ++idle;
  for (NodeId member : state_.members)
    if (!state_.nodes.contains(member) && !truth_[state_.round].done.contains(by_id_.at(member)->rank))
      violate(fmt::format("the round runs on without {}", by_id_.at(member)->host->name));
  bool room = state_.members.size() < static_cast<size_t>(options_.max_nodes);
  bool settled = now_ > *state_.last_join + kGrowDelay;
  if (options_.grow == Grow::kNow && idle > 0 && room && settled && truth_[state_.round].done.empty())
    violate("late nodes are kept waiting");
}

void World::end_job(const Decision& decision) {
  job_ended(state_, decision);
  over_ = true;
  outcome_.ending = decision.ending;
  for (const Life& life : lives_)
    if (running(life))
      violate(fmt::format("the job is over ({}) and {} runs on", job::ending_name(decision.ending), life.host->name));

  const RoundTruth& truth = truth_[state_.round];
  const bool too_few = state_.nodes.size() < needed_nodes(options_);
  const bool no_restart = state_.restarts == options_.max_restarts;
  bool right = false;
  if (decision.ending == job::Ending::kSucceeded) {
    right = decision.exit_code == 0 && state_.round >= 0 && truth.done.size() == truth.size;
  } else if (decision.ending == job::Ending::kWorkerFailed) {
    right = !judged_.empty() && truth.failed && !truth.lost && decision.exit_code == judged_.back().exit_code &&
            (no_restart || !judged_.back().can_restart);
    // The rest of its node was given the time to follow.
    if (truth.killed && judged_.back().can_restart) right = right && now_ >= truth.stopped_at + kNodeFollowsWorker;
  } else if (decision.ending == job::Ending::kCrashLoop) {
    auto loop = static_cast<size_t>(options_.crash_loop);
    right = loop > 0 && judged_.size() >= loop && truth.failed && decision.exit_code == judged_.back().exit_code;
    for (size_t i = 0; right && i < loop; ++i) {
      const Failure& failure = judged_[judged_.size() - 1 - i];
      right = failure.after <= options_.crash_loop_time && failure.fingerprint == judged_.back().fingerprint;
    }
  } else if (decision.ending == job::Ending::kSignalled) {
    right = signal_ && decision.exit_code == 128 + *signal_;
  } else if (decision.ending == job::Ending::kJoinTimeout) {
    right = decision.exit_code == 125 && state_.round < 0 && too_few;
  } else if (decision.ending == job::Ending::kNodeLost) {
    right = decision.exit_code == 125 && state_.round >= 0 && too_few && outcome_.losses > 0;
  }
  if (!right)
    violate(fmt::format("ends with \"{}\" {} ({})", job::ending_name(decision.ending), decision.exit_code,
                        decision.reason));
}

}  // namespace muster::rendezvous::sim
