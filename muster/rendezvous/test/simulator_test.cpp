#include "muster/rendezvous/test/simulator.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "muster/base/strings.h"

namespace muster::rendezvous::sim {
namespace {

#ifdef MUSTER_SANITIZED
constexpr uint64_t kSchedules = 1000, kFresh = 200;
#else
constexpr uint64_t kSchedules = 5000, kFresh = 1000;
#endif

// MUSTER_SIM_SEED=N: that schedule with everything that happens. MUSTER_SIM_SCHEDULES=N: so many, MUSTER_SIM_FIRST=N:
// from that seed on. MUSTER_SIM_FRESH=N: so many with seeds that no run has had before.
uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// The first violation of some schedules in which these rules hold.
std::string first_violation(const Rules& rules) {
  for (uint64_t seed = 1; seed <= kSchedules; ++seed)
    if (Outcome outcome = simulate(seed, false, rules); !outcome.violation.empty()) return outcome.violation;
  return "none";
}

std::string story(uint64_t seed) {
  Outcome outcome = simulate(seed, true);
  return fmt::format("seed {}: {}\n{}\nrepeat: MUSTER_SIM_SEED={} rendezvous_test --gtest_filter=Simulator.OneSeed\n",
                     seed, outcome.violation, join(outcome.trace, "\n"), seed);
}

// What the schedules came to, all together.
struct Tally {
  std::map<job::Ending, int> endings;
  int rounds = 0, restarts = 0, losses = 0, excused = 0, most_hosts = 0;
};

// Stops at the first schedule that breaks a rule: a fatal failure with its story.
void run_schedules(uint64_t first, uint64_t count, Tally& tally) {
  const TimePoint start = Clock::now();
  for (uint64_t seed = first; seed != first + count; ++seed) {
    Outcome outcome = simulate(seed);
    ASSERT_EQ(outcome.violation, "") << story(seed);
    ASSERT_TRUE(outcome.disturbed || outcome.ending == job::Ending::kSucceeded) << story(seed);
    ++tally.endings[outcome.ending];
    tally.rounds += outcome.rounds;
    tally.restarts += outcome.restarts;
    tally.losses += outcome.losses;
    tally.excused += outcome.excused;
    tally.most_hosts = std::max(tally.most_hosts, outcome.hosts);
  }
  double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  fmt::print("{} schedules, {:.0f} a second: {} rounds, {} restarts, {} nodes gone, {} after a worker;", count,
             static_cast<double>(count) / seconds, tally.rounds, tally.restarts, tally.losses, tally.excused);
  for (const auto& [ending, times] : tally.endings) fmt::print(" {} {}", job::ending_name(ending), times);
  fmt::print("\n");
}

TEST(Simulator, EveryScheduleKeepsTheRules) {
  Tally tally;
  run_schedules(setting("MUSTER_SIM_FIRST", 1), setting("MUSTER_SIM_SCHEDULES", kSchedules), tally);
  if (HasFatalFailure() || std::getenv("MUSTER_SIM_FIRST") != nullptr) return;  // some others need not have everything
  // Schedules that never get anywhere would keep every rule.
  using enum job::Ending;
  for (job::Ending ending : {kSucceeded, kWorkerFailed, kSignalled, kNodeLost, kJoinTimeout, kCrashLoop})
    EXPECT_GT(tally.endings[ending], 0) << job::ending_name(ending);
  EXPECT_GT(tally.excused, 0);
  EXPECT_GT(tally.most_hosts, kMostNodes * 3 / 4);
}

// Each run looks where none has looked before. A violation here is as real as one of the fixed seeds.
TEST(Simulator, FreshSchedulesKeepTheRules) {
  const uint64_t count = setting("MUSTER_SIM_FRESH", kFresh);
  const uint64_t first = std::random_device{}();
  fmt::print("repeat: MUSTER_SIM_FIRST={} MUSTER_SIM_SCHEDULES={} rendezvous_test --gtest_filter=Simulator.Every*\n",
             first, count);
  Tally tally;
  run_schedules(first, count, tally);
}

// Whether some schedule has two rounds at once when a rule is switched off: else the rule is not tested.
bool finds_two_rounds_without(const Rules& rules) {
  constexpr uint64_t kMost = 5000;
  for (uint64_t seed = 1; seed <= kMost; ++seed) {
    const std::string violation = simulate(seed, false, rules).violation;
    if (violation.find(" runs on ") != std::string::npos) return true;
  }
  return false;
}

TEST(Simulator, AFenceThatWaitsForTheAgentIsFound) {
  EXPECT_TRUE(finds_two_rounds_without({.fence_waits_for_nobody = false}));
}

TEST(Simulator, AnAgentThatLeavesTheLeaseToItsWardenIsFound) {
  EXPECT_TRUE(finds_two_rounds_without({.agent_holds_lease = false}));
}

TEST(Simulator, TheSameSeedIsTheSameSchedule) {
  for (uint64_t seed = 1; seed <= 20; ++seed) EXPECT_EQ(simulate(seed, true).trace, simulate(seed, true).trace);
}

// --- each rule is needed: without it the simulator finds what it prevents --------------------------------------------

TEST(Simulator, FindsTwoRoundsIfNoRoundWaitsForTheLeaseOfALostNode) {
  EXPECT_TRUE(finds_two_rounds_without({.fence_lost_nodes = false}));
}

TEST(Simulator, FindsTwoRoundsIfAClosedConnectionIsTakenForANodesEnd) {
  EXPECT_THAT(first_violation({.doubt_closed_connections = false}),
              testing::ContainsRegex("round .* runs on .* while"));
}

TEST(Simulator, FindsAHangIfNoAgentIsAskedForAnAnswer) {
  EXPECT_THAT(first_violation({.pings = false}), testing::HasSubstr("no end in sight"));
}

TEST(Simulator, FindsAHostThatIsRefusedForThePausesOfTheCoordinator) {
  EXPECT_THAT(first_violation({.excuse_own_pauses = false}), testing::HasSubstr("the coordinator's own pauses"));
}

TEST(Simulator, OneSeed) {
  uint64_t seed = setting("MUSTER_SIM_SEED", 1);
  std::string told = story(seed);
  if (std::getenv("MUSTER_SIM_SEED") != nullptr) fmt::print("{}", told);
  EXPECT_EQ(simulate(seed).violation, "") << told;
}

}  // namespace
}  // namespace muster::rendezvous::sim
