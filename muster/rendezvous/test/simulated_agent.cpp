// An agent, its warden and its workers, as the coordinator depends on them.

#include <fmt/format.h>

#include "muster/rendezvous/heartbeat.h"
#include "muster/rendezvous/test/simulator.h"

namespace muster::rendezvous::sim {
namespace {

// From the decision to kill until nothing runs any more: less than fence_margin(), which is there for it.
constexpr double kKillTime = 0.35;

}  // namespace

void World::start_life(Host& host) {
  if (over_ || host.occupied) return;
  host.occupied = true;
  Life& life = lives_.emplace_back(&host);
  life.join.host = host.name;
  life.join.workers = 1 + host.index % 3;
  life.join.role = host.index % 4 == 3 ? "other" : "default";
  if (options_.expected > 0) life.join.position = host.index;
  if (options_.fixed_ranks) life.join.rank = host.index;
  life.joined_at = now_;
  life.connected = true;
  if (tracing_) say(fmt::format("{}: agent starts", host.name));
  send(life, life.up, Direction::kUp, [this, &life] { on_join(life); });
}

// The lease begins when Join was sent: what is told to a node that nobody has heard since is no news.
void World::welcome(Life& life, NodeId id) {
  if (!life.alive) return;
  life.id = id;
  life.lease.emplace(options_.lease, life.joined_at, now_);
  life.published = life.lease->until();
  beat(life);
  watch_lease(life);
  agent_looks_again(life);
}

void World::beat(Life& life) {
  if (!life.alive || defer_warden(life, [this, &life] { beat(life); })) return;
  act_on(life, life.lease->tick(now_));
  if (!life.alive) return;
  TimePoint sent = now_;
  send(life, life.beats, Direction::kUp, [this, &life, sent] { on_beat(life, sent); });
  after(kBeatPeriod, [this, &life] { beat(life); });
}

// On the dot, not with the next beat: the coordinator gives it no more than fence_margin().
void World::watch_lease(Life& life) {
  if (!life.alive || defer_warden(life, [this, &life] { watch_lease(life); })) return;
  act_on(life, life.lease->tick(now_));
  if (life.alive) at(life.lease->next_change(), [this, &life] { watch_lease(life); });
}

// What the agent sees of its warden: when the lease ends, soon after the warden was stopped, and while workers are held.
void World::agent_looks(Life& life) {
  if (!life.alive || !rules_.agent_holds_lease || defer(life, [this, &life] { agent_looks(life); })) return;
  const LeaseWatch::Verdict verdict =
      life.watch.look(now_, {.warden_stopped = life.host->warden == Host::Warden::kStopped,
                             .until = life.published,
                             .lease = options_.lease});
  if (verdict == LeaseWatch::Verdict::kEnd) return end_life(life, "its warden does not renew the lease");
  life.held = verdict == LeaseWatch::Verdict::kHold;
  check_running(life);
}

void World::agent_looks_again(Life& life) {
  if (!life.alive) return;
  agent_looks(life);
  at(life.held || life.published <= now_ ? now_ + kBeatPeriod : life.published,
     [this, &life] { agent_looks_again(life); });
}

void World::echo(Life& life, TimePoint sent, bool stands) {
  if (!life.alive || defer_warden(life, [this, &life, sent, stands] { echo(life, sent, stands); })) return;
  const Lease::State state = life.lease->echoed(sent, stands, now_);
  if (state == Lease::State::kHolding) life.published = life.lease->until();
  act_on(life, state);
}

void World::act_on(Life& life, Lease::State state) {
  if (state == Lease::State::kExpired) return end_life(life, "its lease has run out");
  life.stopped = state == Lease::State::kAsking;
  check_running(life);
}

// It looks for rank 0's store first, which takes a moment.
void World::told_to_start(Life& life, const job::Round& start) {
  if (!life.alive) return;
  if (life.workers || life.starting)
    violate(fmt::format("round {} starts on {} while {} runs", start.number, life.host->name, life.round));
  if (start.restarts != truth_[start.number].restarts) violate("restart counts differ");
  life.starting = true;
  life.failed = false;
  life.round = start.number;
  life.rank = start.group_rank;
  after(random_.time(0, 0.1), [this, &life, round = start.number] { start_workers(life, round); });
}

void World::start_workers(Life& life, int round) {
  if (!life.alive || !life.starting || life.round != round) return;
  if (defer(life, [this, &life, round] { start_workers(life, round); })) return;
  if (now_ >= life.published) {  // it asks again whether the lease holds
    after(std::chrono::milliseconds(50), [this, &life, round] { start_workers(life, round); });
    return;
  }
  if (tracing_) say(fmt::format("{}: round {} rank {}", life.host->name, round, life.rank));
  life.starting = false;
  life.workers = true;
  check_running(life);
  bool fails = random_.chance(fail_chance_);
  Duration work =
      fails && random_.chance(0.5) ? random_.time(0.01, 1) : longest_work_ - random_.time(0, fails ? 15 : 1);
  after(std::max(work, Duration(std::chrono::milliseconds(10))),
        [this, &life, round, fails] { worker_ends(life, round, !fails); });
}

void World::worker_ends(Life& life, int round, bool succeeds) {
  if (!life.workers || life.round != round || life.failed) return;
  if (defer(life, [this, &life, round, succeeds] { worker_ends(life, round, succeeds); })) return;
  if (!running(life)) {
    after(std::chrono::milliseconds(100), [this, &life, round, succeeds] { worker_ends(life, round, succeeds); });
    return;
  }
  if (tracing_) say(fmt::format("{}: worker of round {} {}", life.host->name, round, succeeds ? "ends" : "fails"));
  if (succeeds) return node_ended(life, true);
  life.failed = true;
  if (random_.chance(0.3)) after(random_.time(0, 1), [this, &life] { end_life(life, "killed after its worker"); });
  if (random_.chance(0.2)) return node_ended(life, false);  // all its workers at once
  if (life.alive) send(life, life.up, Direction::kUp, [this, &life, round] { on_worker_failed(life, round); });
}

void World::node_ended(Life& life, bool succeeded) {
  life.workers = false;
  if (succeeded) truth_[life.round].done.insert(life.rank);
  if (!life.alive) return;
  send(life, life.up, Direction::kUp,
       [this, &life, round = life.round, succeeded] { on_round_ended(life, round, succeeded); });
}

void World::stop_workers(Life& life, int round) {
  if (life.alive && life.starting && life.round == round) {
    life.starting = false;
    return node_ended(life, false);
  }
  if (!life.workers || life.round != round) return;
  Duration reap = random_.chance(slow_reap_chance_) ? random_.time(1, 9) : random_.time(0.001, 0.5);
  after(reap, [this, &life, round] {
    auto reaped = [this, &life, round] {
      if (!life.workers || life.round != round) return;
      bool obeyed = !life.failed && random_.chance(0.3);
      if (tracing_) say(fmt::format("{}: workers of round {} are reaped", life.host->name, round));
      node_ended(life, obeyed);
    };
    if (!defer(life, reaped)) reaped();
  });
}

// Peers notice, some of them, after a while.
void World::workers_vanish(Life& life) {
  if (!life.workers) return;
  for (Life& peer : lives_)
    if (&peer != &life && peer.workers && peer.round == life.round && random_.chance(0.4))
      after(random_.time(0.01, 3), [this, &peer, round = life.round] { worker_ends(peer, round, false); });
}

void World::end_life(Life& life, const char* why) {
  if (!life.alive) return;
  if (tracing_) say(fmt::format("{}: agent ends: {}", life.host->name, why));
  life.alive = false;
  life.host->occupied = false;
  workers_vanish(life);
  auto kill = [this, &life] {
    auto killed = [this, &life] {
      life.workers = false;
      auto leave = [this, &life, end = random_.chance(0.8) ? LinkEnd::kGoodbye : LinkEnd::kClosed] {
        send(life, life.beats, Direction::kUp, [this, &life, end] { on_heartbeat_ended(life, end); });
      };
      if (!defer_warden(life, leave)) leave();
    };
    if (!defer(life, killed)) killed();
  };
  auto close = [this, &life] {
    send(life, life.up, Direction::kUp, [this, &life] { on_closed(life, LinkEnd::kClosed); });
  };
  // The connections of an agent that hangs in the kernel stay open.
  const Duration hangs = life.undying ? random_.time(1, 20) : Duration(0);
  after(random_.time(0, kKillTime) + (rules_.fence_waits_for_nobody ? Duration(0) : hangs), kill);
  if (life.undying)
    after(hangs, close);
  else
    close();
  if (life.lease && random_.chance(0.7)) after(random_.time(0.05, 6), [this, &life] { come_back(*life.host); });
}

// The warden runs first: it finds that it stood still before anything else of the node has gone on, and what the agent
// starts while the warden asks is stopped as well.
void World::thaw(Host& host) {
  if (!host.frozen_since) return;
  if (tracing_) say(fmt::format("{}: thaws", host.name));
  host.frozen_since.reset();
  for (Life& life : lives_) {
    if (life.host != &host) continue;
    if (life.alive && life.lease) act_on(life, life.lease->tick(now_));
    if (!life.alive) life.workers = false;  // the kill was on its way
  }
  std::vector<Step> inbox = std::move(host.inbox);
  host.inbox.clear();
  for (const Step& step : inbox) step();
  for (const Life& life : lives_)
    if (life.host == &host) check_running(life);
}

}  // namespace muster::rendezvous::sim
