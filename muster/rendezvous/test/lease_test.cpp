#include <gtest/gtest.h>

#include "muster/rendezvous/heartbeat.h"

namespace muster::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using State = Lease::State;

constexpr TimePoint kStart{std::chrono::hours(1)};

// A warden's day: it ticks every period, and its beats are echoed as long as `echoes` says so.
struct Warden {
  TimePoint now = kStart;
  Lease lease;

  explicit Warden(Duration length = seconds(10)) : lease(length, kStart, kStart) {}

  State run(Duration duration, bool echoes) {
    State state = lease.state();
    for (TimePoint end = now + duration; now < end;) {
      TimePoint sent = now;
      now += kBeatPeriod;
      state = lease.tick(now);
      if (echoes) state = lease.echoed(sent, true, now);
    }
    return state;
  }
  // Nothing of this process runs, then its timer does.
  State stand_still(Duration duration) {
    now += duration;
    return lease.tick(now);
  }
};

TEST(Lease, HoldsWhileBeatsAreEchoed) {
  Warden warden;
  EXPECT_EQ(warden.run(seconds(3600), true), State::kHolding);
  EXPECT_EQ(warden.lease.until(), warden.now - kBeatPeriod + seconds(10));
}

TEST(Lease, ExpiresALeaseAfterTheLastBeatThatWasEchoed) {
  Warden warden;
  warden.run(seconds(5), true);
  TimePoint last_sent = warden.now - kBeatPeriod;
  EXPECT_EQ(warden.run(seconds(9), false), State::kHolding);
  EXPECT_EQ(warden.lease.tick(last_sent + seconds(10) - milliseconds(1)), State::kHolding);
  EXPECT_EQ(warden.lease.tick(last_sent + seconds(10)), State::kExpired);
  EXPECT_EQ(warden.lease.reason(last_sent + seconds(10)), "no word from the coordinator for 9.5 s");
}

TEST(Lease, ExpiresWhenThereNeverWasAnEcho) {
  Warden warden;
  EXPECT_EQ(warden.run(milliseconds(9500), false), State::kHolding);
  EXPECT_EQ(warden.run(milliseconds(500), false), State::kExpired);
  EXPECT_EQ(warden.lease.reason(warden.now), "no word from the coordinator for 10.0 s");
}

TEST(Lease, CountsFromWhenABeatWasSentNotFromItsEcho) {
  Warden warden;
  warden.run(seconds(5), false);
  warden.lease.echoed(kStart + seconds(1), true, warden.now);
  EXPECT_EQ(warden.lease.until(), kStart + seconds(11));
  warden.lease.echoed(kStart, true, warden.now);  // an older one, late
  EXPECT_EQ(warden.lease.until(), kStart + seconds(11));
}

TEST(Lease, AnEchoFromTheFutureIsWorthNoMoreThanOneOfNow) {
  Warden warden;
  warden.run(seconds(1), false);
  warden.lease.echoed(kStart + seconds(1000), true, warden.now);
  EXPECT_EQ(warden.lease.until(), warden.now + seconds(10));
}

TEST(Lease, ExpiresAtOnceWhenTheJobWentOnWithoutIt) {
  Warden warden;
  warden.run(seconds(5), true);
  EXPECT_EQ(warden.lease.echoed(warden.now, false, warden.now), State::kExpired);
  EXPECT_EQ(warden.lease.reason(warden.now), "the job went on without this node");
}

TEST(Lease, NothingBringsAnExpiredOneBack) {
  Warden warden;
  warden.run(seconds(11), false);
  ASSERT_EQ(warden.lease.state(), State::kExpired);
  EXPECT_EQ(warden.lease.echoed(warden.now, true, warden.now), State::kExpired);
  EXPECT_EQ(warden.stand_still(seconds(100)), State::kExpired);
  EXPECT_EQ(warden.run(seconds(100), true), State::kExpired);
}

TEST(Lease, AsksAfterAPauseAndGoesOnWhenTheRoundStands) {
  Warden warden;
  warden.run(seconds(5), true);
  EXPECT_EQ(warden.stand_still(seconds(30)), State::kAsking);
  EXPECT_EQ(warden.lease.reason(warden.now), "this node stood still for 30.0 s");
  TimePoint asked = warden.now;
  EXPECT_EQ(warden.lease.echoed(asked, true, asked + milliseconds(1)), State::kHolding);
  EXPECT_EQ(warden.lease.until(), asked + seconds(10));
  warden.now = asked + milliseconds(1);
  EXPECT_EQ(warden.run(seconds(20), true), State::kHolding);
  EXPECT_EQ(warden.run(seconds(20), false), State::kExpired);  // the pause is history
  EXPECT_EQ(warden.lease.reason(warden.now).find("pause"), std::string::npos);
}

TEST(Lease, AnEchoOfBeforeThePauseAnswersNothing) {
  Warden warden;
  warden.run(seconds(5), true);
  TimePoint before = warden.now;
  ASSERT_EQ(warden.stand_still(seconds(30)), State::kAsking);
  EXPECT_EQ(warden.lease.echoed(before, true, warden.now), State::kAsking);
}

// The loop may see the socket before the timer.
TEST(Lease, AnEchoMayBeTheFirstToFindThePause) {
  Warden warden;
  warden.run(seconds(5), true);
  TimePoint before = warden.now;
  warden.now += seconds(30);
  EXPECT_EQ(warden.lease.echoed(before, true, warden.now), State::kAsking);
}

TEST(Lease, ADisownedOneNamesThePause) {
  Warden warden;
  warden.run(seconds(5), true);
  warden.stand_still(seconds(31));
  EXPECT_EQ(warden.lease.echoed(warden.now, false, warden.now), State::kExpired);
  EXPECT_EQ(warden.lease.reason(warden.now), "the job went on without this node after a pause of 31.0 s");
}

TEST(Lease, AsksForALeaseAtMost) {
  Warden warden;
  warden.run(seconds(5), true);
  ASSERT_EQ(warden.stand_still(seconds(200)), State::kAsking);
  EXPECT_EQ(warden.run(milliseconds(9500), false), State::kAsking);
  EXPECT_EQ(warden.run(milliseconds(500), false), State::kExpired);
  EXPECT_EQ(warden.lease.reason(warden.now), "no word from the coordinator for 10.0 s after a pause of 200 s");
}

TEST(Lease, ASecondPauseWhileAskingAsksAgain) {
  Warden warden;
  warden.stand_still(seconds(30));
  TimePoint first = warden.now;
  EXPECT_EQ(warden.stand_still(seconds(30)), State::kAsking);
  EXPECT_EQ(warden.lease.echoed(first, true, warden.now), State::kAsking);
  EXPECT_EQ(warden.lease.reason(warden.now), "this node stood still for 60.0 s");
  EXPECT_EQ(warden.lease.echoed(warden.now, true, warden.now), State::kHolding);
}

// What is late by less is a busy machine: no excuse for the silence until the lease has ended.
TEST(Lease, APauseIsAThirdOfTheLeaseAndASecondAtLeast) {
  for (auto [length, least] : {std::pair<Duration, Duration>(seconds(30), seconds(10)),
                               {seconds(3), seconds(1)},
                               {milliseconds(1500), seconds(1)}}) {
    Warden busy(length);
    busy.stand_still(kBeatPeriod + least - milliseconds(1));
    EXPECT_EQ(busy.run(length, false), State::kExpired);
    Warden paused(length);
    paused.stand_still(kBeatPeriod + least);
    EXPECT_EQ(paused.lease.tick(std::max(paused.now, paused.lease.until())), State::kAsking);
  }
  Warden short_lease(seconds(1));
  EXPECT_EQ(short_lease.stand_still(milliseconds(1200)), State::kExpired);
}

// It wakes up while the lease still holds, and gets no answer.
TEST(Lease, APauseDoesNotLengthenIt) {
  Warden warden(seconds(6));
  warden.run(seconds(5), true);
  const TimePoint until = warden.now - kBeatPeriod + seconds(6);
  EXPECT_EQ(warden.stand_still(seconds(5)), State::kHolding);
  EXPECT_EQ(warden.lease.until(), until);
  EXPECT_EQ(warden.lease.next_change(), until);
  const TimePoint woke = warden.now;
  EXPECT_EQ(warden.lease.tick(until), State::kAsking) << "the workers must not run any more";
  EXPECT_EQ(warden.lease.next_change(), woke + seconds(6));
  EXPECT_EQ(warden.lease.until(), until);
  warden.now = until;
  warden.run(milliseconds(3500), false);
  EXPECT_EQ(warden.lease.tick(woke + seconds(6)), State::kExpired);
}

TEST(Lease, BeginsWhenTheNodeAskedToBeTaken) {
  Lease lease(seconds(10), kStart, kStart + seconds(4));
  EXPECT_EQ(lease.until(), kStart + seconds(10));
  EXPECT_EQ(lease.state(), State::kHolding);
  EXPECT_EQ(lease.tick(kStart + seconds(4)), State::kHolding) << "the time until the answer was no pause";
}

TEST(Lease, AsksWhenTheAnswerCameAfterItsEnd) {
  const TimePoint answered = kStart + seconds(11);
  Lease lease(seconds(10), kStart, answered);
  EXPECT_EQ(lease.state(), State::kAsking);
  EXPECT_EQ(lease.echoed(answered, true, answered + milliseconds(1)), State::kHolding);
}

// --- the agent's side

using Verdict = LeaseWatch::Verdict;

// An agent's day: it looks every period.
struct Agent {
  TimePoint now = kStart;
  TimePoint until = kStart + seconds(10);
  LeaseWatch watch;

  Verdict run(Duration duration, bool warden_stopped = false) {
    Verdict verdict{};
    for (TimePoint end = now + duration; now < end;) {
      now += std::min(kBeatPeriod, end - now);
      verdict = look(warden_stopped);
    }
    return verdict;
  }
  Verdict look(bool warden_stopped) {
    return watch.look(now, {.warden_stopped = warden_stopped, .until = until, .lease = seconds(10)});
  }
};

TEST(LeaseWatch, LetsWorkersRunWhileTheLeaseHolds) {
  Agent agent;
  EXPECT_EQ(agent.run(milliseconds(9999)), Verdict::kRun);
  EXPECT_EQ(agent.run(milliseconds(1)), Verdict::kHold);
  agent.until = agent.now + seconds(10);
  EXPECT_EQ(agent.run(seconds(1)), Verdict::kRun) << "the warden has renewed it";
}

TEST(LeaseWatch, EndsEverythingWhenTheWardenDoesNotRenewALeaseForALease) {
  Agent agent;
  agent.run(seconds(10));
  EXPECT_EQ(agent.run(milliseconds(9999)), Verdict::kHold);
  EXPECT_EQ(agent.run(milliseconds(1)), Verdict::kEnd);
}

TEST(LeaseWatch, HoldsAsLongAsTheWardenIsStopped) {
  Agent agent;
  EXPECT_EQ(agent.run(milliseconds(500), true), Verdict::kHold) << "at once, though the lease holds";
  EXPECT_EQ(agent.look(false), Verdict::kRun);
  EXPECT_EQ(agent.run(std::chrono::hours(1), true), Verdict::kHold);
  EXPECT_EQ(agent.look(false), Verdict::kHold) << "the warden asks";
  EXPECT_EQ(agent.run(milliseconds(9999)), Verdict::kHold);
  EXPECT_EQ(agent.run(milliseconds(1)), Verdict::kEnd);
}

TEST(LeaseWatch, GivesTheWardenTimeAfterAPauseOfItsOwn) {
  Agent agent;
  agent.run(seconds(15));
  agent.now += seconds(100);
  EXPECT_EQ(agent.look(false), Verdict::kHold);
  EXPECT_EQ(agent.run(milliseconds(9999)), Verdict::kHold);
  EXPECT_EQ(agent.run(milliseconds(1)), Verdict::kEnd);
}

TEST(LeaseWatch, WithoutALeaseOnlyAStoppedWardenCounts) {
  LeaseWatch watch;
  EXPECT_EQ(watch.look(kStart, {}), Verdict::kRun);
  EXPECT_EQ(watch.look(kStart + seconds(1), {.warden_stopped = true}), Verdict::kHold);
  EXPECT_EQ(watch.look(kStart + std::chrono::hours(1), {}), Verdict::kRun);
}

}  // namespace
}  // namespace muster::rendezvous
