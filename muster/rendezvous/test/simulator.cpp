#include "muster/rendezvous/test/simulator.h"

#include <fmt/format.h>

namespace muster::rendezvous::sim {

uint64_t Random::next() {  // splitmix64
  state_ += 0x9e3779b97f4a7c15;
  uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

int Random::between(int low, int high) {
  return low + static_cast<int>(next() % (static_cast<uint64_t>(high - low) + 1));
}

bool Random::chance(double probability) { return static_cast<double>(next() >> 11) * 0x1p-53 < probability; }

Duration Random::time(double low, double high) {
  double seconds = low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

World::World(uint64_t seed, bool trace, const Rules& rules)
    : random_(seed), tracing_(trace), rules_(rules), start_(TimePoint{} + std::chrono::hours(1)), now_(start_) {
  state_.began = start_;
  make_options();
  plan();
}

Outcome World::run() {
  // Faults end after half a minute and no wait is longer than join_timeout: whatever happens is over long before.
  const TimePoint bound = start_ + std::chrono::minutes(30);
  turn();
  if (rules_.pings) ping_all();
  while (!over_ && outcome_.violation.empty()) {
    if (events_.empty() || events_.top().time > bound) {
      violate("no end in sight: " + decide(now_, state_, options_).reason);
      break;
    }
    now_ = events_.top().time;
    Step step = std::move(const_cast<Event&>(events_.top()).step);
    events_.pop();
    step();
  }
  outcome_.hosts = static_cast<int>(hosts_.size());
  outcome_.rounds = state_.round + 1;
  outcome_.restarts = state_.restarts;
  return std::move(outcome_);
}

void World::at(TimePoint time, Step step) { events_.push({time, sequence_++, std::move(step)}); }

void World::send(Life& life, Pipe& pipe, Direction direction, Step step) {
  if (life.control_lost && (&pipe == &life.up || &pipe == &life.down)) return;
  bool is_cut = direction == Direction::kUp ? life.host->cut_up : life.host->cut_down;
  if (is_cut || !pipe.held.empty()) {
    pipe.held.push_back(std::move(step));
    return;
  }
  pipe.last = std::max(pipe.last, now_ + random_.time(0.0002, 0.03));
  at(pipe.last, [this, &life, direction, step = std::move(step)] { arrive(life, direction, step); });
}

void World::arrive(Life& life, Direction direction, const Step& step) {
  if (direction == Direction::kUp) {
    if (coordinator_frozen_)
      coordinator_inbox_.push_back(step);
    else
      step();
  } else if (life.host->frozen_since) {
    life.host->inbox.push_back(step);
  } else {
    step();
  }
}

void World::flush(Host& host) {
  for (Life& life : lives_) {
    if (life.host != &host) continue;
    for (Pipe* pipe : {&life.up, &life.beats, &life.down, &life.echoes}) {
      bool up = pipe == &life.up || pipe == &life.beats;
      if (up ? host.cut_up : host.cut_down) continue;
      std::vector<Step> held = std::move(pipe->held);
      pipe->held.clear();
      for (Step& step : held) send(life, *pipe, up ? Direction::kUp : Direction::kDown, std::move(step));
    }
  }
}

bool World::defer(Life& life, Step step) {
  if (!life.host->frozen_since) return false;
  life.host->inbox.push_back(std::move(step));
  return true;
}

bool World::defer_warden(Life& life, Step step) {
  if (defer(life, step)) return true;
  if (life.host->warden == Host::Warden::kRuns) return false;
  life.host->warden_inbox.push_back(std::move(step));
  return true;
}

void World::say(const std::string& what) {
  outcome_.trace.push_back(fmt::format("{:8.3f} {}", std::chrono::duration<double>(now_ - start_).count(), what));
}

void World::violate(const std::string& what) {
  if (outcome_.violation.empty())
    outcome_.violation = fmt::format("at {:.3f} s: {}", std::chrono::duration<double>(now_ - start_).count(), what);
}

bool World::running(const Life& life) const {
  return life.workers && !life.stopped && !life.held && !life.host->frozen_since;
}

void World::check_running(const Life& life) {
  if (!running(life)) return;
  for (const Life& other : lives_) {
    if (&other == &life || !running(other)) continue;
    if (other.round != life.round)
      violate(fmt::format("round {} runs on {} while round {} runs on {}", life.round, life.host->name, other.round,
                          other.host->name));
    else if (other.rank == life.rank)
      violate(fmt::format("node rank {} of round {} runs on {} and on {}", life.rank, life.round, life.host->name,
                          other.host->name));
  }
}

Outcome simulate(uint64_t seed, bool trace, const Rules& rules) { return World(seed, trace, rules).run(); }

}  // namespace muster::rendezvous::sim
