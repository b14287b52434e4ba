// How rounds and jobs end: success, failure, loss, signals; and who may not join.

#include <gtest/gtest.h>

#include <csignal>

#include "muster/rendezvous/test/membership_job.h"

namespace muster::rendezvous {
namespace {

// n1 … of a job that has started its first round.
Job started(int min, int count, int max_restarts = 0) {
  Job job(Job::nodes(min, count));
  job.options.max_restarts = max_restarts;
  for (int i = 1; i <= count; ++i) job.joins("n" + std::to_string(i));
  EXPECT_EQ(job.settle(), "open ");
  job.pass(20);
  return job;
}

TEST(Success, IsEveryMemberDone) {
  Job job = started(2, 2);
  job.ends(1, true);
  EXPECT_EQ(job.settle(), "");
  EXPECT_EQ(job.last.waiting, Waiting::kRound);
  job.ends(2, true);
  EXPECT_EQ(job.settle(), "succeeded");
  EXPECT_EQ(job.last.exit_code, 0);
  EXPECT_EQ(job.last.reason, "every worker on 2 nodes has ended with 0");
  EXPECT_EQ(job.next().kind, Kind::kWait);
  EXPECT_EQ(job.next().waiting, Waiting::kNothing);
}

TEST(Success, DoesNotNeedThoseThatWereDoneBeforeTheyWent) {
  for (LinkEnd end : {LinkEnd::kClosed, LinkEnd::kSilent}) {
    Job job = started(2, 2);
    job.ends(1, true);
    node_gone(job.now, job.state, job.options, 1, end, {.detail = "gone"});
    EXPECT_EQ(job.settle(), "");
    EXPECT_TRUE(job.state.ghosts.empty());
    EXPECT_TRUE(job.state.losses.empty());
    job.ends(2, true);
    EXPECT_EQ(job.settle(), "succeeded");
  }
}

// --- a node of which a worker goes first ----------------------------------------------------------------------------

Job worker_killed(int max_restarts) {
  Job job = started(1, 2, max_restarts);
  job.failure.exit_code = 128 + SIGKILL;
  job.failure.text = "rank 1 on n2: SIGKILL";
  job.fails(2);
  EXPECT_EQ(job.settle(), "stop ");
  job.all_end();
  return job;
}

TEST(Killed, WaitsForTheRestOfItsNode) {
  Job job = worker_killed(0);
  EXPECT_EQ(job.settle(), "judge ");
  EXPECT_EQ(job.last.waiting, Waiting::kNodeOfWorker);
  EXPECT_EQ(job.last.wake_at, job.now + kNodeFollowsWorker);
  job.pass(0.1);
  job.closes(2);
  EXPECT_EQ(job.settle(), "open ");
  EXPECT_EQ(job.reasons.back(), "round 1 with 1 node: n2 is lost: closed by 10.0.0.9:99");
  EXPECT_EQ(job.state.restarts, 0);
  EXPECT_EQ(job.state.losses.size(), 1U);
}

TEST(Killed, MayGoBeforeItIsJudged) {
  Job job = worker_killed(0);
  job.closes(2);
  EXPECT_EQ(job.settle(), "judge open ");
  EXPECT_EQ(job.state.restarts, 0);
}

TEST(Killed, MayGoBeforeAnythingIsDecided) {
  Job job = started(1, 2, 0);
  job.failure.exit_code = kKilled;
  job.ends(2, false);
  job.closes(2);
  EXPECT_EQ(job.settle(), "stop ");
  job.all_end();
  EXPECT_EQ(job.settle(), "judge open ");
  EXPECT_EQ(job.reasons.back(), "round 1 with 1 node: n2 is lost: closed by 10.0.0.9:99");
  EXPECT_EQ(job.state.restarts, 0);
  EXPECT_EQ(job.state.losses.size(), 1U);
}

TEST(Killed, ItsNodeIsNamedAlsoWhereItGoesBeforeTheRoundHasStopped) {
  Job job = started(1, 2, 0);
  job.fails(2);
  EXPECT_EQ(job.settle(), "stop ");
  job.closes(2);
  job.all_end();
  job.pass(60);
  EXPECT_EQ(job.settle(), "open ");
  EXPECT_EQ(job.reasons.back(), "round 1 with 1 node: a worker on n2 has failed; n2 is lost: closed by 10.0.0.9:99");
  EXPECT_EQ(job.state.restarts, 0);
}

TEST(Killed, IsNotExcusedWhenItFailedByItself) {
  Job job = worker_killed(0);
  job.failure.exit_code = 7;
  job.closes(2);
  EXPECT_EQ(job.settle(), "judge worker-failed");
}

TEST(Killed, EndsTheJobWhenItsNodeStays) {
  Job job = worker_killed(0);
  job.settle();
  job.pass(0.5);
  EXPECT_EQ(job.settle(), "worker-failed");
  EXPECT_EQ(job.last.exit_code, 128 + SIGKILL);
}

TEST(Killed, RestartsAtOnceWhereThatIsAllowed) { EXPECT_EQ(worker_killed(1).settle(), "judge open "); }

TEST(Killed, IsNotExcusedByTheLossOfAnother) {
  Job job = worker_killed(0);
  job.settle();
  job.closes(1);
  job.pass(0.5);
  EXPECT_EQ(job.settle(), "worker-failed");
}

// --- failures -------------------------------------------------------------------------------------------------------

TEST(Failure, StopsEverybodyThenIsJudgedThenRestarts) {
  Job job = started(2, 2, 2);
  job.fails(2);
  Decision decision = job.next();
  EXPECT_EQ(decision.kind, Kind::kStopRound);
  EXPECT_TRUE(decision.counts_as_restart);
  EXPECT_EQ(decision.signal, SIGTERM);
  EXPECT_EQ(decision.reason, "a worker on n2 has failed");
  EXPECT_EQ(job.settle(), "stop ");
  job.ends(2, false);
  EXPECT_EQ(job.settle(), "");
  EXPECT_EQ(job.last.waiting, Waiting::kWorkers);
  job.ends(1, false);
  EXPECT_EQ(job.settle(), "judge open ");
  EXPECT_EQ(job.reasons.back(), "round 1 with 2 nodes: restart 1 of 2");
  EXPECT_EQ(job.state.restarts, 1);
}

TEST(Failure, EndsTheJobWhenNoRestartIsLeft) {
  struct Case {
    int max_restarts, failures;
    bool can_restart;
    const char* reason;
  };
  for (const Case& each : {
           Case{0, 1, true, "rank 3 on n2: exit code 7; no restarts were asked for (--max-restarts)"},
           Case{2, 3, true, "rank 3 on n2: exit code 7; all 2 restarts are used"},
           Case{2, 1, false, "rank 3 on n2: exit code 7"},
       }) {
    Job job = started(1, 2, each.max_restarts);
    job.failure.can_restart = each.can_restart;
    std::string done;
    for (int i = 0; i < each.failures; ++i) {
      job.all_end();
      done = job.settle();
    }
    EXPECT_EQ(done, "stop judge worker-failed");
    EXPECT_EQ(job.last.exit_code, 7);
    EXPECT_EQ(job.last.reason, each.reason);
    EXPECT_EQ(job.state.restarts, each.failures - 1);
  }
}

TEST(Failure, OfTheStoreIsOneToo) {
  Job job(Job::nodes(1, 1));
  job.failure.can_restart = false;
  job.joins("n1");
  round_opened(job.state, job.next().members);
  EXPECT_EQ(job.next().waiting, Waiting::kStore);
  round_ended(job.state, 1, 0, false);
  EXPECT_EQ(job.settle(), "stop judge worker-failed");
}

TEST(Failure, OfAnotherRoundOrOfNobodyIsNone) {
  Job job = started(1, 1, 1);
  worker_failed(job.state, 1, 7);
  worker_failed(job.state, 99, 0);
  round_ended(job.state, 1, 7, false);
  round_ended(job.state, 99, 0, false);
  EXPECT_EQ(job.settle(), "");
  job.all_end(true);
  EXPECT_EQ(job.settle(), "succeeded");
}

TEST(Failure, AfterAStopIsOurDoing) {
  Job job = started(1, 2, 3);
  job.options.max_nodes = 3;
  job.joins("n3");
  job.pass(1);
  EXPECT_EQ(job.settle(), "stop ");
  job.fails(1);
  job.all_end(false);
  EXPECT_EQ(job.settle(), "open ");
  EXPECT_EQ(job.state.restarts, 0);
}

TEST(CrashLoop, IsTheSameQuickFailureInARow) {
  struct Case {
    std::vector<std::pair<const char*, double>> failures;
    const char* done;  // after the last
  };
  for (const Case& each : {
           Case{{{"a", 1}, {"a", 2}, {"a", 10}}, "stop judge crash-loop"},
           Case{{{"a", 1}, {"a", 2}}, "stop judge open "},
           Case{{{"a", 1}, {"b", 2}, {"a", 1}}, "stop judge open "},
           Case{{{"a", 1}, {"a", 11}, {"a", 1}}, "stop judge open "},
           Case{{{"b", 1}, {"a", 60}, {"a", 1}, {"a", 1}, {"a", 1}}, "stop judge crash-loop"},
       }) {
    Job job = started(1, 2, 10);
    std::string done;
    for (auto [fingerprint, after] : each.failures) {
      job.failure.fingerprint = fingerprint;
      job.failure.after = sec(after);
      job.all_end();
      done = job.settle();
    }
    EXPECT_EQ(done, each.done);
    if (job.last.kind != Kind::kEndJob) continue;
    EXPECT_EQ(job.last.exit_code, 7);
    EXPECT_EQ(
        job.last.reason,
        "rank 3 on n2: exit code 7; it failed in this way within 10.0 s of its start 3 times in a row (--crash-loop)");
  }
}

TEST(CrashLoop, CanBeOffAndIsBrokenByAnythingElse) {
  for (bool off : {true, false}) {
    Job job = started(1, 2, 10);
    if (off) job.options.crash_loop = 0;
    job.failure.after = sec(1);
    for (int i = 0; i < 5; ++i) {
      if (!off) {  // a node is lost in between
        job.closes(job.state.members.back());
        job.settle();
        job.all_end();
        job.joins("new" + std::to_string(i));
        job.pass(1);
        ASSERT_EQ(job.settle(), "open ");
      }
      job.all_end();
      EXPECT_EQ(job.settle(), "stop judge open ");
    }
  }
}

// --- losses ---------------------------------------------------------------------------------------------------------

TEST(Loss, OfASilentNodeIsNoticedWhenItsLeaseHasRunOut) {
  Job job = started(1, 2, 1);
  const TimePoint silent_since = job.now;
  for (double seconds : {3.0, 7.4}) {
    job.now += sec(seconds);
    node_heard(job.now, job.state, 1);
    EXPECT_EQ(job.settle(), "");
    EXPECT_EQ(job.last.wake_at, silent_since + sec(10.5));
  }
  job.now = silent_since + sec(10.5);
  Decision decision = job.next();
  EXPECT_EQ(decision.kind, Kind::kDropNode);
  EXPECT_EQ(decision.node, 2);
  EXPECT_EQ(decision.loss.cause, Loss::Cause::kSilent);
  EXPECT_EQ(decision.loss.host, "n2");
  EXPECT_EQ(decision.loss.lasting, sec(10.5));
  EXPECT_EQ(job.settle(), "drop stop ");
  EXPECT_EQ(job.reasons.back(), "n2 is lost: no word for 10.5 s");
  job.ends(1, false);
  EXPECT_EQ(job.settle(), "open ") << "safe at once: its warden has killed its workers";
  EXPECT_EQ(job.reasons.back(), "round 1 with 1 node: n2 is lost: no word for 10.5 s");
  EXPECT_EQ(job.state.restarts, 0);
}

TEST(Loss, ByAClosedConnectionIsSafeAfterTheMargin) {
  Job job = started(1, 3);
  job.closes(3);
  EXPECT_FALSE(job.next().counts_as_restart);
  EXPECT_EQ(job.settle(), "stop ");
  EXPECT_EQ(job.reasons.back(), "n3 is lost: closed by 10.0.0.9:99");
  job.all_end();
  job.pass(0.4);
  EXPECT_EQ(job.settle(), "");
  EXPECT_EQ(job.last.waiting, Waiting::kLease);
  EXPECT_EQ(job.last.wake_at, job.now + sec(0.1));
  job.pass(0.1);
  EXPECT_EQ(job.settle(), "open ");
  EXPECT_TRUE(job.state.ghosts.empty());
}

TEST(Loss, OfAConnectionThatTheNodeMayNotKnowOfIsSafeAfterItsLease) {
  Job job = started(1, 2);
  job.now += sec(2);
  node_heard(job.now, job.state, 1);
  node_gone(job.now, job.state, job.options, 2, LinkEnd::kSilent, {.detail = "no route to host"});
  job.settle();
  job.all_end();
  EXPECT_EQ(job.settle(), "");
  EXPECT_EQ(job.last.wake_at, job.now + sec(8.5));
  job.pass(8.5);
  EXPECT_EQ(job.settle(), "open ");
}

// --- how a node ended ------------------------------------------------------------------------------------------------

TEST(Departure, NeedsAGoodbyeOrTheEndOfBothConnections) {
  const LinkEnd all[] = {LinkEnd::kNone, LinkEnd::kSilent, LinkEnd::kClosed, LinkEnd::kGoodbye};
  for (LinkEnd control : all) {
    for (LinkEnd heartbeat : all) {
      Departure expected = Departure::kSilent;
      if (control == LinkEnd::kClosed && heartbeat == LinkEnd::kClosed) expected = Departure::kClosed;
      if (control == LinkEnd::kGoodbye || heartbeat == LinkEnd::kGoodbye) expected = Departure::kGoodbye;
      EXPECT_EQ(departure(control, heartbeat), expected);
    }
  }
}

// n2 of two is gone in this way, all others have stopped: how long the next round has to wait.
double wait_after(LinkEnd control, LinkEnd heartbeat) {
  Job job = started(1, 2);
  heartbeat_ended(job.now, job.state, 2, heartbeat);
  node_gone(job.now, job.state, job.options, 2, control, {.detail = "gone"});
  EXPECT_EQ(job.settle(), "stop ") << "the others are stopped at once";
  job.all_end();
  if (job.settle() == "open ") return 0;
  return std::chrono::duration<double>(*job.last.wake_at - job.now).count();
}

TEST(Departure, DecidesWhenTheNextRoundMayStart) {
  EXPECT_EQ(wait_after(LinkEnd::kClosed, LinkEnd::kNone), 10.5) << "one connection of the two";
  EXPECT_EQ(wait_after(LinkEnd::kClosed, LinkEnd::kSilent), 10.5);
  EXPECT_EQ(wait_after(LinkEnd::kSilent, LinkEnd::kClosed), 10.5) << "a reset";
  EXPECT_EQ(wait_after(LinkEnd::kClosed, LinkEnd::kClosed), 0.5);
  EXPECT_EQ(wait_after(LinkEnd::kSilent, LinkEnd::kGoodbye), 0);
}

TEST(Departure, IsLearntAfterTheNodeIsGone) {
  Job job = started(1, 2);
  node_gone(job.now, job.state, job.options, 2, LinkEnd::kClosed, {.detail = "closed"});
  job.settle();
  job.all_end();
  EXPECT_EQ(job.settle(), "");
  EXPECT_EQ(job.last.wake_at, job.now + sec(10.5));
  heartbeat_ended(job.now, job.state, 2, LinkEnd::kClosed);
  EXPECT_EQ(job.next().wake_at, job.now + sec(0.5));
  heartbeat_ended(job.now, job.state, 2, LinkEnd::kNone);
  EXPECT_EQ(job.next().wake_at, job.now + sec(10.5)) << "its warden has connected again";
  heartbeat_ended(job.now, job.state, 1, LinkEnd::kGoodbye);
  EXPECT_EQ(job.next().wake_at, job.now + sec(10.5)) << "another node's";
  heartbeat_ended(job.now, job.state, 2, LinkEnd::kGoodbye);
  EXPECT_EQ(job.settle(), "open ");
}

TEST(Departure, OfAnAgentThatSaidGoodbyeIsSafeHoweverItsConnectionEnds) {
  Job job = started(1, 2);
  node_said_goodbye(job.state, 2);
  node_gone(job.now, job.state, job.options, 2, LinkEnd::kSilent, {.detail = "reset"});
  EXPECT_EQ(job.settle(), "stop ");
  job.all_end();
  EXPECT_EQ(job.settle(), "open ");
}

TEST(Departure, GivesALongLeaseAWiderMargin) {
  EXPECT_EQ(fence_margin(sec(2)), sec(0.5));
  EXPECT_EQ(fence_margin(sec(10)), sec(0.5));
  EXPECT_EQ(fence_margin(sec(60)), sec(3));
}

// --- agents that do not answer ---------------------------------------------------------------------------------------

TEST(Ping, ThatIsNotAnsweredForALeaseMakesANodeLost) {
  Job job = started(1, 2);
  node_pinged(job.now, job.state, 2);
  job.pass(10.4);  // its warden beats
  EXPECT_EQ(job.settle(), "");
  EXPECT_EQ(job.last.wake_at, job.now + sec(0.1));
  job.pass(0.1);
  EXPECT_EQ(job.settle(), "drop stop ");
  EXPECT_EQ(job.reasons.back(), "n2 is lost: its agent has not answered for 10.5 s");
  job.ends(1, false);
  EXPECT_EQ(job.settle(), "");
  EXPECT_EQ(job.last.wake_at, job.now + sec(10.5)) << "its warden may have an echo since";
  heartbeat_ended(job.now, job.state, 2, LinkEnd::kGoodbye);
  EXPECT_EQ(job.settle(), "open ");
}

TEST(Ping, ThatIsAnsweredIsForgotten) {
  Job job = started(1, 2);
  node_pinged(job.now, job.state, 2);
  job.pass(9);
  node_answered(job.state, 2);
  job.pass(9);
  node_pinged(job.now, job.state, 2);
  job.pass(9);
  EXPECT_EQ(job.settle(), "");
}

TEST(Loss, IsTheCauseWhenPeersFail) {
  for (bool failed_first : {true, false}) {
    Job job = started(1, 2, 3);
    if (failed_first) {
      job.fails(1);
      EXPECT_EQ(job.settle(), "stop ");
      EXPECT_TRUE(job.state.counts_as_restart);
      job.closes(2);
    } else {
      job.closes(2);
      job.fails(1);
      EXPECT_EQ(job.settle(), "stop ");
    }
    job.ends(1, false);
    job.pass(0.5);
    EXPECT_EQ(job.settle(), "open ");
    EXPECT_EQ(job.state.restarts, 0);
  }
}

TEST(Loss, OfASilentNodeBecomesTheCauseOfWhatItsPeersDiedOf) {
  Job job = started(1, 2, 3);
  job.fails(1);
  EXPECT_EQ(job.settle(), "stop ");
  job.ends(1, false);
  job.now += sec(10.5);
  node_heard(job.now, job.state, 1);
  EXPECT_EQ(job.settle(), "drop open ");
  EXPECT_EQ(job.state.restarts, 0);
}

TEST(Loss, AfterItsWorkersWereReapedIsNone) {
  Job job = started(1, 2, 3);
  job.all_end();
  job.closes(2);
  EXPECT_EQ(job.settle(), "stop judge open ");
  EXPECT_EQ(job.state.restarts, 1);
}

TEST(Loss, OfANodeWithoutAPartIsNone) {
  Job job = started(2, 2);
  NodeId spare = job.joins("n3");
  job.closes(spare);
  EXPECT_EQ(job.settle(), "");
  EXPECT_TRUE(job.state.losses.empty());
  EXPECT_TRUE(job.state.ghosts.empty());
}

TEST(Loss, WhileTheRoundOpensMakesAnother) {
  Job job(Job::nodes(1, 2));
  job.joins("n1");
  job.joins("n2");
  round_opened(job.state, job.next().members);
  job.closes(2);
  EXPECT_EQ(job.state.round_state, RoundState::kStopping) << "a store that opens now starts nothing";
  EXPECT_EQ(job.settle(), "open ") << "nobody had workers";
  EXPECT_EQ(job.state.round, 1);
  EXPECT_EQ(job.reasons.back(), "round 1 with 1 node: n2 is lost: closed by 10.0.0.9:99");
}

TEST(Loss, BelowMinNodesWaitsForAReplacement) {
  Job job = started(2, 2);
  job.closes(2);
  job.settle();
  job.all_end();
  job.pass(1);
  EXPECT_EQ(job.settle(), "");
  EXPECT_EQ(job.last.waiting, Waiting::kNodes);
  EXPECT_EQ(job.last.wake_at, job.now + sec(10.5)) << "n1 may be lost before";
  job.pass(1);
  job.joins("n9");
  EXPECT_EQ(job.settle(), "open ");
}

TEST(Loss, BelowMinNodesEndsTheJobAtTheTimeout) {
  Job job = started(2, 2);
  job.closes(2);
  job.settle();
  job.all_end();
  job.pass(600);
  EXPECT_EQ(job.settle(), "node-lost");
  EXPECT_EQ(job.last.exit_code, 125);
  EXPECT_EQ(job.last.reason, "1 of 2 nodes after 600 s; n2 is lost: closed by 10.0.0.9:99");
}

TEST(Loss, BelowMinNodesHasALastCallAgain) {
  Job job = started(2, 3);
  job.closes(2);
  job.closes(3);
  job.settle();
  job.all_end();
  job.pass(1);
  job.joins("n8");
  EXPECT_EQ(job.settle(), "");
  EXPECT_EQ(job.last.waiting, Waiting::kLastCall);
  job.pass(3);
  EXPECT_EQ(job.settle(), "open ");
}

TEST(Loss, OfAKnownHostIsNotWaitedForWhileThereAreEnough) {
  Job job(Job::nodes(1, 2));
  job.options.expected = 2;
  job.joins("n0", 0);
  job.joins("n1", 1);
  ASSERT_EQ(job.settle(), "open ");
  job.closes(2);
  job.settle();
  job.all_end();
  job.pass(0.5);
  EXPECT_EQ(job.settle(), "open ");
}

TEST(Loss, OfAKnownHostWithoutHopeEndsTheJobAtOnce) {
  Job job(Job::nodes(2, 2));
  job.options.expected = 2;
  job.joins("n0", 0);
  job.joins("n1", 1);
  ASSERT_EQ(job.settle(), "open ");
  job.closes(2);
  host_hopeless(job.state, 1, {ErrorKind::kPeer, "ssh: no route to host", {}});
  job.settle();
  job.all_end();
  job.pass(0.5);
  EXPECT_EQ(job.settle(), "node-lost");
  EXPECT_EQ(job.last.exit_code, 125);
  EXPECT_EQ(job.last.reason,
            "only 1 of 2 nodes can join; n1 is lost: closed by 10.0.0.9:99; host 1: ssh: no route to host");
}

TEST(Loss, TheWaitBeginsWhenTheNodeIsMissed) {
  Job job = started(2, 2, 1);
  job.ends(1, true);
  job.closes(1);  // done: not missed yet
  job.pass(700);
  job.ends(2, false);
  EXPECT_EQ(job.settle(), "stop judge ");
  EXPECT_EQ(reason_text(job.last, job.now), "1 of 2 nodes; waiting for more, 600 s left");
}

TEST(Loss, WhileTheRoundIsStoppedBeginsTheWait) {
  Job job = started(2, 2, 1);
  job.pass(700);
  job.fails(1);
  EXPECT_EQ(job.settle(), "stop ");
  job.ends(1, false);
  job.pass(5);
  job.closes(2);
  job.pass(1);
  EXPECT_EQ(job.settle(), "");
  EXPECT_EQ(job.last.waiting, Waiting::kNodes);
}

// --- pauses ---------------------------------------------------------------------------------------------------------

TEST(Pause, OfTheCoordinatorGivesEverybodyAWholeLease) {
  Job job = started(1, 3);
  job.closes(3);
  job.now += sec(30);
  paused(job.now - sec(1), job.now, job.state, job.options);
  EXPECT_EQ(job.settle(), "stop ");
  EXPECT_EQ(job.last.wake_at, job.now + sec(10.5));
  job.all_end();
  EXPECT_EQ(job.settle(), "") << "what was about to end may have stood still as well";
  EXPECT_EQ(job.last.wake_at, job.now + sec(0.5));
}

TEST(Pause, OfTheCoordinatorGivesEveryAgentAsLongToAnswer) {
  Job job = started(1, 2);
  node_pinged(job.now, job.state, 2);
  job.now += sec(30);
  paused(job.now - sec(30), job.now, job.state, job.options);
  EXPECT_EQ(job.settle(), "");
  job.pass(10.5);
  EXPECT_EQ(job.settle(), "drop stop ");
}

// A job that is suspended while it waits for its nodes.
TEST(Pause, OfTheCoordinatorDoesNotUseUpTheJoinTimeout) {
  Job job(Job::nodes(2, 2));
  job.joins("n1");
  job.pass(100);
  EXPECT_EQ(job.settle(), "");
  const TimePoint began = job.now;
  job.now += sec(1000);
  paused(began, job.now, job.state, job.options);
  EXPECT_EQ(job.settle(), "");
  EXPECT_EQ(job.last.waiting, Waiting::kNodes);
}

// A message that has waited for the end of the pause may be read before the pause is noticed.
TEST(Pause, OfTheCoordinatorMovesNothingIntoTheFuture) {
  Job job = started(1, 2);
  const TimePoint began = job.now;
  job.now += sec(1000);
  job.joins("n3");
  job.state.stopped_at = job.now;
  paused(began, job.now, job.state, job.options);
  EXPECT_EQ(job.state.last_join, job.now);
  EXPECT_EQ(job.state.stopped_at, job.now);
}

TEST(Pause, OfTheCoordinatorIsNoLossOfTheHostsWhoseLeasesItEnded) {
  Job job = started(2, 2);
  for (int i = 0; i < 5; ++i) {
    const NodeId last = job.state.next_node - 1;
    const TimePoint began = job.now;
    job.now += sec(12);
    paused(began, job.now, job.state, job.options);
    job.closes(last);
    EXPECT_TRUE(job.state.losses.empty());
    EXPECT_EQ(job.settle(), "stop ");
    job.all_end();
    job.pass(1);
    Join again;
    again.host = "n2";
    EXPECT_EQ(refusal(job.now, job.state, job.options, again), std::nullopt);
    job.joins("n2");
    EXPECT_EQ(job.settle(), "open ");
  }
}

TEST(Pause, OfTheCoordinatorExcusesNoOtherLoss) {
  Job job = started(1, 4);
  const TimePoint began = job.now;
  job.now += sec(4);
  paused(began, job.now, job.state, job.options);
  job.closes(4);
  EXPECT_EQ(job.state.losses.size(), 1U) << "no lease of 10 s ends in 4 s";
  paused(job.now, job.now + sec(6), job.state, job.options);
  job.pass(6);
  job.joins("n5");
  job.settle();
  job.closes(5);
  EXPECT_EQ(job.state.losses.size(), 2U) << "it joined later";
  job.pass(10.6);
  job.closes(3);
  EXPECT_EQ(job.state.losses.size(), 3U) << "too long ago";
}

// --- signals --------------------------------------------------------------------------------------------------------

TEST(Kill, DropsNodesThatDoNotEndAndThenEndsTheJob) {
  Job job = started(1, 3);
  stop_requested(job.state, SIGTERM);
  EXPECT_EQ(job.settle(), "stop ");
  job.ends(1, false);
  job.pass(5);
  EXPECT_EQ(job.settle(), "") << "the grace goes on";
  kill_requested(job.now, job.state);
  EXPECT_EQ(job.settle(), "");
  EXPECT_EQ(job.last.wake_at, job.now + kKillTime);
  job.pass(2);
  EXPECT_EQ(job.settle(), "drop drop ");
  EXPECT_EQ(job.reasons.back(), "n3 is lost: its workers were killed and have not ended");
  EXPECT_EQ(job.last.wake_at, job.now + kKillTime);
  heartbeat_ended(job.now, job.state, 3, LinkEnd::kGoodbye);
  job.pass(2);
  EXPECT_EQ(job.settle(), "signalled");
  EXPECT_EQ(job.last.exit_code, 143);
  EXPECT_EQ(job.last.reason, "muster received SIGTERM; n2 has not confirmed the end of its workers");
}

TEST(Kill, EndsTheJobWhenTheLastNodeHasConfirmed) {
  Job job = started(1, 2);
  stop_requested(job.state, SIGINT);
  job.settle();
  kill_requested(job.now, job.state);
  job.ends(1, false);
  job.pass(2);
  EXPECT_EQ(job.settle(), "drop ");
  heartbeat_ended(job.now, job.state, 2, LinkEnd::kGoodbye);
  EXPECT_EQ(job.settle(), "signalled");
  EXPECT_EQ(job.last.reason, "muster received SIGINT");
}

TEST(Signal, BeforeAnyRoundEndsTheJobAtOnce) {
  Job job(Job::nodes(2, 2));
  job.joins("n1");
  stop_requested(job.state, SIGINT);
  EXPECT_EQ(job.settle(), "signalled");
  EXPECT_EQ(job.last.exit_code, 130);
  EXPECT_EQ(job.last.reason, "muster received SIGINT");
}

TEST(Signal, ToTheMusterOfOneNodeNamesItOnAll) {
  Job job = started(1, 2);
  stop_requested(job.state, SIGTERM, "n2");
  stop_requested(job.state, SIGINT, "n1");
  EXPECT_EQ(job.next().reason, "n2's muster received SIGTERM");
  EXPECT_EQ(job.settle(), "stop ");
  job.all_end();
  EXPECT_EQ(job.settle(), "signalled");
  EXPECT_EQ(job.last.reason, "n2's muster received SIGTERM");
}

TEST(Signal, StopsTheRoundFirst) {
  Job job = started(1, 2, 3);
  stop_requested(job.state, SIGINT);
  stop_requested(job.state, SIGTERM);
  EXPECT_EQ(job.next().signal, SIGINT);
  EXPECT_FALSE(job.next().counts_as_restart);
  EXPECT_EQ(job.settle(), "stop ");
  job.fails(1);
  job.ends(1, false);
  EXPECT_EQ(job.settle(), "");
  job.closes(2);
  EXPECT_EQ(job.settle(), "") << "its workers may still run";
  job.pass(0.5);
  EXPECT_EQ(job.settle(), "signalled");
  EXPECT_EQ(job.last.exit_code, 130);
}

TEST(Signal, ComesTooLateWhenAllAreDone) {
  Job job = started(1, 1);
  job.all_end(true);
  stop_requested(job.state, SIGTERM);
  EXPECT_EQ(job.settle(), "succeeded");
}

TEST(Signal, AfterAFailureCountsIfARestartWasLeft) {
  for (int max_restarts : {0, 1}) {
    Job job = started(1, 2, max_restarts);
    job.fails(1);
    stop_requested(job.state, SIGTERM);
    EXPECT_EQ(job.settle(), "stop ");
    job.all_end();
    EXPECT_EQ(job.settle(), max_restarts == 0 ? "judge worker-failed" : "judge signalled");
    EXPECT_EQ(job.last.exit_code, max_restarts == 0 ? 7 : 143);
  }
}

TEST(Signal, ThatComesFirstMakesTheFailureItsDoing) {
  Job job = started(1, 1);
  stop_requested(job.state, SIGTERM);
  job.fails(1);
  job.ends(1, false);
  EXPECT_EQ(job.settle(), "stop signalled");
}

// --- who may not join -----------------------------------------------------------------------------------------------

TEST(Refusal, SaysWhy) {
  struct Case {
    const char* host;
    int rank;
    int min, max;
    const char* reason;  // empty: welcome
  };
  for (const Case& each : {
           Case{"n2", 1, 0, 0, "node rank 1 is taken by n1; n2 claims it too"},
           Case{"n1", 1, 0, 0,
                "n1 already runs node rank 1 of this job; if this is a second job, give each job its own --rdzv-id or "
                "--master-port"},
           Case{"n2", 2, 0, 0, ""},
           Case{"n2", 2, 3, 3, ""},
           Case{"n2", 3, 0, 0, "n2 claims node rank 3; this job has the ranks 0 to 2"},
           Case{"n2", -1, 0, 0, "n2 names no node rank; every node of this job needs --node-rank"},
           Case{"n2", 2, 2, 4, "n2 was started with --nnodes 2:4, this job has --nnodes 3"},
       }) {
    Job job(Job::nodes(3, 3));
    job.options.fixed_ranks = true;
    job.joins("n1", {}, 1);
    Join join;
    join.host = each.host;
    if (each.rank >= 0) join.rank = each.rank;
    join.min_nodes = each.min;
    join.max_nodes = each.max;
    EXPECT_EQ(refusal(job.now, job.state, job.options, join).value_or(""), each.reason);
  }
}

TEST(Refusal, OfAJobThatEnds) {
  Job job = started(1, 1);
  Join join;
  EXPECT_EQ(refusal(job.now, job.state, job.options, join), std::nullopt);
  stop_requested(job.state, SIGTERM);
  EXPECT_EQ(refusal(job.now, job.state, job.options, join), "the job has been asked to end");
  job.all_end(true);
  job.settle();
  EXPECT_EQ(refusal(job.now, job.state, job.options, join), "the job is over (succeeded)");
}

TEST(Refusal, OfAHostThatIsLostTooOften) {
  Job job = started(1, 2);
  Join join;
  join.host = "n2";
  job.closes(2);
  EXPECT_EQ(refusal(job.now, job.state, job.options, join), std::nullopt);
  job.settle();
  job.all_end();
  job.pass(0.5);
  NodeId again = job.joins("n2");
  ASSERT_EQ(job.settle(), "open ");
  job.closes(again);
  EXPECT_EQ(refusal(job.now, job.state, job.options, join), "n2 was lost 2 times within 600 s and is not taken again");
  job.pass(600);
  EXPECT_EQ(refusal(job.now, job.state, job.options, join), std::nullopt);
}

// --- nodes that nobody starts again -----------------------------------------------------------------------------------

TEST(Lives, WhenTooFewAreLeftTheJobIsOver) {
  Job job(Job::nodes(2, 3));
  job.options.lives = 3;
  job.joins("n1");
  NodeId second = job.joins("n2"), third = job.joins("n3");
  ASSERT_EQ(job.settle(), "open ");
  auto is_lost = [&](NodeId node) {
    job.closes(node);
    job.settle();
    job.all_end();
    job.pass(0.5);
    return job.settle();
  };
  ASSERT_EQ(is_lost(third), "open ") << "two are enough";
  EXPECT_EQ(is_lost(second), "node-lost");
  EXPECT_EQ(job.last.exit_code, 125);
  EXPECT_EQ(job.last.reason, "1 of 3 nodes, 2 needed, and no other will be started; n2 is lost: closed by 10.0.0.9:99");
}

TEST(Lives, WhoHasNotComeYetMay) {
  Job job(Job::nodes(2, 3));
  job.options.lives = 3;
  NodeId first = job.joins("n1");
  job.closes(first);
  EXPECT_EQ(job.settle(), "") << "n2 and n3";
  job.joins("n2");
  EXPECT_EQ(job.settle(), "");
  job.joins("n3");
  job.pass(3);
  EXPECT_EQ(job.settle(), "open ");
}

}  // namespace
}  // namespace muster::rendezvous
