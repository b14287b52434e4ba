// What a seed makes of a schedule: the job's options, when hosts come, and what befalls them.

#include <fmt/format.h>

#include <csignal>

#include "muster/rendezvous/test/simulator.h"

namespace muster::rendezvous::sim {
namespace {

constexpr double kFaultTime = 25;  // seconds; then peace

}  // namespace

void World::make_options() {
  // Small jobs have most of the corner cases and are quick; the others are there for what only many nodes do.
  int count = random_.chance(0.92) ? random_.between(1, 7) : random_.between(8, kMostNodes);
  options_.max_nodes = random_.between(std::max(1, count - 2), count);
  options_.min_nodes = random_.between(1, random_.chance(0.5) ? options_.max_nodes : (options_.max_nodes + 1) / 2);
  int mode = random_.between(0, 3);
  options_.fixed_ranks = mode == 0;
  if (options_.fixed_ranks) count = options_.min_nodes = options_.max_nodes;
  if (mode == 1) options_.expected = count;
  options_.lease = std::chrono::seconds(random_.between(2, 5));
  options_.join_timeout = random_.time(6, 15);
  options_.last_call = random_.time(0.2, 3);
  options_.grow = static_cast<Grow>(random_.between(0, 2));
  options_.max_restarts = random_.between(0, 4);
  options_.crash_loop = random_.between(0, 3);
  options_.losses_allowed = random_.between(0, 3);
  fail_chance_ = random_.chance(0.5) ? 0 : random_.chance(0.5) ? 0.05 : 0.3;
  store_fail_chance_ = random_.chance(0.9) ? 0 : 0.2;
  slow_reap_chance_ = random_.chance(0.7) ? 0 : 0.3;
  longest_work_ = random_.time(3, 30);
  lazy_turns_ = random_.chance(0.3);
  launcher_restarts_ = random_.chance(0.5);
  for (int i = 0; i < count; ++i) {
    Host& host = hosts_.emplace_back();
    host.index = i;
    host.name = fmt::format("n{}", i);
  }
}

void World::plan() {
  bool late_ones = random_.chance(0.5), all_come = random_.chance(0.7);
  for (Host& host : hosts_) {
    Duration when = late_ones && random_.chance(0.4) ? random_.time(0.5, 20) : random_.time(0, 1);
    bool comes = all_come || random_.chance(0.8);
    if (comes) {
      after(when, [this, &host] { start_life(host); });
    } else {
      outcome_.disturbed = true;
      after(when, [this, &host] {
        host_hopeless(state_, host.index, {ErrorKind::kPeer, "connection refused", {}}, now_);
        turn();
      });
      if (random_.chance(0.3)) after(when + random_.time(0.1, 5), [this, &host] { come_back(host); });
    }
  }
  if (fail_chance_ > 0 || store_fail_chance_ > 0 || late_ones) outcome_.disturbed = true;
  plan_faults();
}

void World::plan_faults() {
  if (random_.chance(0.2)) return;
  outcome_.disturbed = true;
  int faults = random_.between(1, 10 + static_cast<int>(hosts_.size()) / 3);
  for (int i = 0; i < faults; ++i) after(random_.time(0, kFaultTime), [this] { fault(); });
  if (random_.chance(0.15))
    after(random_.time(0, kFaultTime), [this] {
      signal_ = random_.chance(0.5) ? SIGINT : SIGTERM;
      if (tracing_) say("signal");
      stop_requested(state_, *signal_);
      turn();
    });
}

void World::fault() {
  Host& host = hosts_[static_cast<size_t>(random_.between(0, static_cast<int>(hosts_.size()) - 1))];
  double lease = std::chrono::duration<double>(options_.lease).count();
  Duration time = random_.chance(0.5) ? random_.time(0.05, lease) : random_.time(lease, 3 * lease);
  int kind = random_.between(0, 16);
  if (kind <= 1) return kill_agent(host);
  if (kind <= 2) return power_off(host);
  if (kind <= 4) return cut(host, true, true, time);
  if (kind == 5) return cut(host, true, false, time);
  if (kind == 6) return cut(host, false, true, time);
  if (kind == 7) return freeze(host, time);
  if (kind == 8) return connection_breaks(host);
  if (kind == 9) return start_life(host);
  if (kind == 13) return close_from_elsewhere(host, time);
  if (kind == 14) return lose_control_connection(host);
  if (kind == 15) return warden_stands_still(host, time);
  if (kind == 16) return agent_will_not_die(host);
  for (Host& each : hosts_) {
    if (kind == 10) cut(each, true, true, time);  // the coordinator is alone
    if (kind == 11) freeze(each, time);           // everything stands still
  }
  if (kind >= 11) freeze_coordinator(time);
}

void World::freeze_coordinator(Duration time) {
  if (coordinator_frozen_) return;
  if (tracing_) say("coordinator freezes");
  coordinator_frozen_ = now_;
  after(time, [this] { thaw_coordinator(); });
}

void World::cut(Host& host, bool up, bool down, Duration time) {
  if (host.cut_up || host.cut_down) return;
  if (tracing_) say(fmt::format("{}: cut{}{}", host.name, up ? " up" : "", down ? " down" : ""));
  host.cut_up = up;
  host.cut_down = down;
  ++host.cuts;
  if (Life* life = life_on(host)) {
    if (up) watch_loss(*life);
    workers_vanish(*life);
  }
  after(time, [this, &host] {
    if (tracing_) say(fmt::format("{}: healed", host.name));
    host.cut_up = host.cut_down = false;
    ++host.cuts;
    flush(host);
  });
}

void World::freeze(Host& host, Duration time) {
  if (host.frozen_since) return;
  if (tracing_) say(fmt::format("{}: freezes", host.name));
  host.frozen_since = now_;
  after(time, [this, &host] { thaw(host); });
}

void World::power_off(Host& host) {
  Life* life = life_on(host);
  if (life == nullptr) return;
  if (tracing_) say(fmt::format("{}: power off", host.name));
  workers_vanish(*life);
  life->alive = life->workers = false;
  life->up.held.clear();
  life->beats.held.clear();
  host.occupied = false;
  host.inbox.clear();
  watch_loss(*life);
  after(random_.time(0.5, 12), [this, &host] { come_back(host); });
}

void World::kill_agent(Host& host) {
  Life* life = life_on(host);
  if (life == nullptr || host.frozen_since) return;
  end_life(*life, "killed");
}

// It wakes up with its lease first, and then finds what came meanwhile.
void World::warden_stands_still(Host& host, Duration time) {
  if (host.warden != Host::Warden::kRuns || host.frozen_since) return;
  host.warden = random_.chance(0.5) ? Host::Warden::kStopped : Host::Warden::kHangs;
  if (tracing_)
    say(fmt::format("{}: the warden {}", host.name, host.warden == Host::Warden::kStopped ? "is stopped" : "hangs"));
  auto look = [this, &host] {
    if (Life* life = life_on(host); life != nullptr && life->lease) agent_looks(*life);
  };
  after(random_.time(0, 0.1), look);
  after(time, [this, &host, look] {
    if (tracing_) say(fmt::format("{}: the warden goes on", host.name));
    host.warden = Host::Warden::kRuns;
    if (Life* life = life_on(host); life != nullptr && life->lease && !host.frozen_since)
      act_on(*life, life->lease->tick(now_));
    std::vector<Step> inbox = std::move(host.warden_inbox);
    host.warden_inbox.clear();
    for (const Step& step : inbox) step();
    after(random_.time(0, 0.1), look);
  });
}

void World::agent_will_not_die(Host& host) {
  if (Life* life = life_on(host)) life->undying = true;
}

// The coordinator's end fails, and the node does not hear of it.
void World::connection_breaks(Host& host) {
  Life* life = life_on(host);
  if (life == nullptr || !life->connected || !state_.nodes.contains(life->id) || coordinator_frozen_) return;
  life->connected = false;
  gone(*life, LinkEnd::kSilent, {.cause = Loss::Cause::kBroken, .detail = "no route to host"});
  turn();
}

// A firewall that answers for the node, or another machine that has taken its address: the coordinator's end of one
// connection is closed or reset, and the node, which nothing reaches any more, runs on.
void World::close_from_elsewhere(Host& host, Duration time) {
  Life* life = life_on(host);
  if (life == nullptr || !life->lease || coordinator_frozen_) return;
  if (tracing_) say(fmt::format("{}: closed from elsewhere", host.name));
  cut(host, true, true, time);
  on_closed(*life, random_.chance(0.5) ? LinkEnd::kSilent : LinkEnd::kClosed);
}

void World::lose_control_connection(Host& host) {
  Life* life = life_on(host);
  if (life == nullptr || !life->lease) return;
  if (tracing_) say(fmt::format("{}: its control connection is dead", host.name));
  life->control_lost = true;
  life->up.held.clear();
  life->down.held.clear();
}

// As a launcher or a scheduler has it: again, given up, or nothing is known.
void World::come_back(Host& host) {
  int fate = launcher_restarts_ ? 0 : random_.between(0, 2);
  if (fate == 0) {
    host_hopeful(state_, host.index);
    start_life(host);
  } else if (fate == 1) {
    host_hopeless(state_, host.index, {ErrorKind::kPeer, "no route to host", {}}, now_);
  }
  turn();
}

// Nobody is heard of it from now on: it must be noticed in time, unless the network or the coordinator is to blame.
void World::watch_loss(Life& life) {
  after(options_.lease + fence_margin(options_.lease) + std::chrono::milliseconds(100),
        [this, &life, cuts = life.host->cuts, since = now_, was_alive = life.alive] {
          bool healed = was_alive && life.host->cuts != cuts;
          if (healed || coordinator_frozen_ || coordinator_thawed_ >= since || !life.connected || over_) return;
          if (state_.nodes.contains(life.id)) violate(fmt::format("{} is lost and nobody notices", life.host->name));
        });
}

Life* World::life_on(Host& host) {
  for (auto life = lives_.rbegin(); life != lives_.rend(); ++life)
    if (life->host == &host && life->alive) return &*life;
  return nullptr;
}

}  // namespace muster::rendezvous::sim
