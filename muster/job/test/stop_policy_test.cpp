#include "muster/job/stop_policy.h"

#include <gtest/gtest.h>

#include <csignal>

namespace muster::job {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using Step = Escalation::Step;

const std::vector<int> kDefault = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

TEST(MeaningOf, HandledSignalsStopTheJob) {
  for (int signal : kDefault) EXPECT_EQ(meaning_of(signal, kDefault, {}), SignalMeaning::kStop) << signal;
}

TEST(MeaningOf, SignalsThatWouldHaveEndedUsStopTheJobToo) {
  EXPECT_EQ(meaning_of(SIGALRM, kDefault, {}), SignalMeaning::kStop);
  EXPECT_EQ(meaning_of(SIGTERM, {SIGUSR1}, {}), SignalMeaning::kStop);
}

TEST(MeaningOf, UserSignalsAndTheTerminalsArePassedOn) {
  EXPECT_EQ(meaning_of(SIGUSR1, kDefault, {}), SignalMeaning::kPassOn);
  EXPECT_EQ(meaning_of(SIGUSR2, kDefault, {}), SignalMeaning::kPassOn);
  EXPECT_EQ(meaning_of(SIGTSTP, kDefault, {}), SignalMeaning::kSuspend);
  EXPECT_EQ(meaning_of(SIGCONT, kDefault, {}), SignalMeaning::kResume);
  EXPECT_EQ(meaning_of(SIGWINCH, kDefault, {}), SignalMeaning::kResize);
  EXPECT_EQ(meaning_of(SIGCHLD, kDefault, {}), SignalMeaning::kIgnore);
}

TEST(MeaningOf, SignalsToHandleDecides) {
  EXPECT_EQ(meaning_of(SIGUSR1, {SIGUSR1}, {}), SignalMeaning::kStop);
  EXPECT_EQ(meaning_of(SIGUSR2, {SIGUSR1}, {}), SignalMeaning::kPassOn);
}

TEST(MeaningOf, ASecondInterruptKills) {
  EXPECT_EQ(meaning_of(SIGINT, kDefault, {SIGINT}), SignalMeaning::kKill);
  EXPECT_EQ(meaning_of(SIGINT, kDefault, {SIGTERM}), SignalMeaning::kPassOn);
  EXPECT_EQ(meaning_of(SIGINT, kDefault, {SIGTERM, SIGINT}), SignalMeaning::kKill);
  EXPECT_EQ(meaning_of(SIGTERM, kDefault, {SIGTERM}), SignalMeaning::kPassOn);
  EXPECT_EQ(meaning_of(SIGTERM, kDefault, {SIGINT}), SignalMeaning::kPassOn);
}

TEST(EchoFilter, OneSignalByTwoWaysIsOne) {
  using std::chrono::milliseconds;
  for (bool warden_first : {true, false}) {
    EchoFilter filter;
    TimePoint start{hours(1)};
    EXPECT_FALSE(filter.is_echo(SIGCONT, warden_first, start));
    EXPECT_FALSE(filter.is_echo(SIGINT, warden_first, start));
    EXPECT_TRUE(filter.is_echo(SIGCONT, !warden_first, start + milliseconds(5)));
    EXPECT_TRUE(filter.is_echo(SIGINT, !warden_first, start + milliseconds(5)));
    EXPECT_FALSE(filter.is_echo(SIGINT, !warden_first, start + milliseconds(10))) << "a second one";
  }
}

TEST(EchoFilter, TwoSignalsByOneWayAreTwo) {
  EchoFilter filter;
  TimePoint start{hours(1)};
  EXPECT_FALSE(filter.is_echo(SIGINT, true, start));
  EXPECT_FALSE(filter.is_echo(SIGINT, true, start));
  EXPECT_FALSE(filter.is_echo(SIGINT, false, start + seconds(1))) << "long after";
}

TEST(Grace, TorchrunTakesThirtySecondsAfterAFailure) {
  JobSpec job;
  job.shutdown_timeout = seconds(2);
  EXPECT_EQ(grace_after_failure(job), seconds(2));
  EXPECT_EQ(grace_after_signal(job), seconds(2));
  job.flavor = Flavor::kTorchrun;
  EXPECT_EQ(grace_after_failure(job), seconds(30));
  EXPECT_EQ(grace_after_signal(job), seconds(2));
}

TEST(Escalation, AsksThenKillsThenGivesUp) {
  TimePoint start{hours(1)};
  Escalation escalation(start, seconds(5));
  EXPECT_EQ(escalation.step_at(start), Step::kAsked);
  EXPECT_EQ(escalation.next_step(start), start + seconds(5));
  TimePoint killed = start + seconds(5);
  EXPECT_EQ(escalation.step_at(killed), Step::kKilled);
  TimePoint end = escalation.next_step(killed);
  EXPECT_GT(end, killed);
  EXPECT_EQ(escalation.step_at(end), Step::kAbandoned);
  EXPECT_EQ(escalation.next_step(end), TimePoint::max());
}

TEST(Escalation, NoGraceKillsAtOnce) {
  TimePoint start{hours(1)};
  EXPECT_EQ(Escalation(start, seconds(0)).step_at(start), Step::kKilled);
}

TEST(Escalation, AskingAgainNeverProlongs) {
  TimePoint start{hours(1)};
  Escalation escalation(start, seconds(30));
  escalation.ask_again(start + seconds(10), seconds(30));
  EXPECT_EQ(escalation.next_step(start), start + seconds(30));
  escalation.ask_again(start + seconds(10), seconds(5));
  EXPECT_EQ(escalation.next_step(start), start + seconds(15));
}

TEST(Escalation, CanBeCutShort) {
  TimePoint start{hours(1)};
  Escalation escalation(start, seconds(30));
  escalation.kill_now(start + seconds(1));
  EXPECT_EQ(escalation.step_at(start + seconds(1)), Step::kKilled);
}

}  // namespace
}  // namespace muster::job
