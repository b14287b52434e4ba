// When rounds open, and with whom.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/rendezvous/test/membership_job.h"

namespace muster::rendezvous {
namespace {

using testing::ElementsAre;

// --- nobody knows who will come -------------------------------------------------------------------------------------

TEST(Opening, AtOnceWithMaxNodes) {
  Job job(Job::nodes(1, 2));
  job.joins("n1");
  job.joins("n2");
  Decision decision = job.next();
  EXPECT_EQ(decision.kind, Kind::kOpenRound);
  EXPECT_THAT(decision.members, ElementsAre(1, 2));
  EXPECT_EQ(decision.reason, "round 0 with 2 nodes: all are there");
}

TEST(Opening, LastCallAfterTheLastJoin) {
  Job job(Job::nodes(1, 4));
  job.joins("n1");
  job.pass(2);
  job.joins("n2");
  job.joins("n3");
  job.pass(0.9);
  Decision decision = job.next();
  EXPECT_EQ(decision.kind, Kind::kWait);
  EXPECT_EQ(decision.waiting, Waiting::kLastCall);
  EXPECT_EQ(decision.wake_at, job.now + sec(2.1));
  job.pass(2.1);
  EXPECT_EQ(job.next().kind, Kind::kOpenRound);
  EXPECT_EQ(job.next().reason, "round 0 with 3 nodes: last call is over");
}

TEST(Opening, TooFewWaitUntilTheJoinTimeout) {
  Job job(Job::nodes(2, 4));
  job.options.lease = std::chrono::hours(1);
  EXPECT_EQ(reason_text(job.next(), job.now), "0 of 4 nodes, 2 needed; waiting for more, 600 s left");
  EXPECT_EQ(job.next().wake_at, job.now + sec(600));
  job.joins("n1");
  job.pass(599);
  EXPECT_EQ(reason_text(job.next(), job.now), "1 of 4 nodes, 2 needed; waiting for more, 1.0 s left");
  job.pass(1);
  EXPECT_EQ(job.settle(), "join-timeout");
  EXPECT_EQ(job.last.exit_code, 125);
  EXPECT_EQ(job.last.reason, "1 of 4 nodes, 2 needed after 600 s; n1 is there");
}

TEST(Opening, LastCallDoesNotOutlastTheJoinTimeout) {
  Job job(Job::nodes(1, 4));
  job.pass(599);
  job.joins("n1");
  EXPECT_EQ(job.next().wake_at, job.now + sec(1));
  job.pass(1);
  EXPECT_EQ(job.next().kind, Kind::kOpenRound);
}

// --- a launcher knows -----------------------------------------------------------------------------------------------

MembershipOptions known(int min, int max, int expected) {
  MembershipOptions options = Job::nodes(min, max);
  options.expected = expected;
  for (int i = 0; i < expected; ++i) options.expected_hosts.push_back("n" + std::to_string(i));
  return options;
}

TEST(KnownHosts, AreWaitedForWithoutALastCall) {
  Job job(known(1, 3, 3));
  job.joins("n0", 0);
  job.joins("n2", 2);
  job.pass(100);
  EXPECT_EQ(reason_text(job.next(), job.now), "2 of 3 nodes; waiting for n1, 500 s left");
  job.joins("n1", 1);
  Decision decision = job.next();
  EXPECT_EQ(decision.kind, Kind::kOpenRound);
  EXPECT_THAT(decision.members, ElementsAre(1, 3, 2)) << "as in the list of hosts, not as they came";
}

TEST(KnownHosts, MayBeFewerThanMax) {
  Job job(known(1, 3, 1));
  job.joins("n0", 0);
  EXPECT_EQ(job.next().kind, Kind::kOpenRound);
  EXPECT_EQ(job.next().reason, "round 0 with 1 node: all are there");
}

TEST(KnownHosts, TheHopelessAreNot) {
  Job job(known(2, 3, 3));
  job.joins("n0", 0);
  job.joins("n2", 2);
  host_hopeless(job.state, 1, {ErrorKind::kPeer, "ssh: connection refused", {}});
  EXPECT_EQ(job.next().kind, Kind::kOpenRound);
  EXPECT_EQ(job.next().reason, "round 0 with 2 nodes: no other node can join");
  host_hopeful(job.state, 1);
  EXPECT_EQ(job.next().kind, Kind::kWait);
}

TEST(KnownHosts, TooFewWithoutHopeIsTheEnd) {
  Job job(known(2, 3, 3));
  job.joins("n0", 0);
  host_hopeless(job.state, 1, {ErrorKind::kPeer, "ssh: connection refused", {}});
  EXPECT_EQ(reason_text(job.next(), job.now), "1 of 3 nodes, 2 needed; waiting for n2, 600 s left");
  host_hopeless(job.state, 2, {ErrorKind::kPeer, "", {}});
  EXPECT_EQ(job.settle(), "join-timeout");
  EXPECT_EQ(job.last.exit_code, 125);
  EXPECT_EQ(job.last.reason, "only 1 of 3 nodes can join, 2 are needed; n1: ssh: connection refused; n2: given up");
}

TEST(KnownHosts, OneWithoutHopeIsTheEndWhenAllAreNeeded) {
  Job job(known(3, 3, 3));
  job.joins("n0", 0);
  host_hopeless(job.state, 2, {ErrorKind::kPeer, "ssh: no such host", {}});
  EXPECT_EQ(job.settle(), "join-timeout") << "n1 may still come and would not help";
  EXPECT_EQ(job.last.exit_code, 125);
  EXPECT_EQ(job.last.reason, "only 2 of 3 nodes can join; n2: ssh: no such host");
}

TEST(KnownHosts, WithTheSameReasonAreNamedTogether) {
  Job job(known(4, 4, 4));
  for (int position : {0, 2, 3})
    host_hopeless(job.state, position, {ErrorKind::kNotFound, "/tmp/x does not exist", {}});
  host_hopeless(job.state, 1, {ErrorKind::kPeer, "ssh: no such host", {}});
  EXPECT_EQ(job.settle(), "join-timeout");
  EXPECT_EQ(job.last.reason, "no node can join; n0, n2, n3: /tmp/x does not exist; n1: ssh: no such host");
}

TEST(KnownHosts, OthersOnTheirWayAreGivenTheTimeToFailAlike) {
  Job job(known(2, 2, 2));
  host_hopeless(job.state, 0, {ErrorKind::kNotFound, "/tmp/x does not exist", {}}, job.now);
  EXPECT_EQ(job.settle(), "");
  EXPECT_EQ(job.last.reason, "only 1 of 2 nodes can join");
  EXPECT_EQ(job.last.wake_at, job.now + sec(0.5));
  Job other = job;
  job.pass(0.1);
  host_hopeless(job.state, 1, {ErrorKind::kNotFound, "/tmp/x does not exist", {}}, job.now);
  EXPECT_EQ(job.settle(), "join-timeout");
  EXPECT_EQ(job.last.reason, "no node can join; n0, n1: /tmp/x does not exist");
  other.pass(0.5);
  EXPECT_EQ(other.settle(), "join-timeout");
  EXPECT_EQ(other.last.reason, "only 1 of 2 nodes can join; n0: /tmp/x does not exist");
}

TEST(KnownHosts, AMissingProgramGivesTheJobItsExitCode) {
  Job job(known(3, 3, 3));
  host_hopeless(job.state, 1, {ErrorKind::kPeer, "ssh: no such host", {}});
  host_hopeless(job.state, 2, {ErrorKind::kNotFound, "/tmp/x does not exist", {}});
  EXPECT_EQ(job.settle(), "join-timeout");
  EXPECT_EQ(job.last.exit_code, 127);
}

TEST(KnownHosts, EachPlaceIsTakenOnceAndOnlyByItsOwn) {
  Job job(known(2, 2, 2));
  job.joins("n1", 1);
  Join join;
  join.host = "n1";
  join.position = 1;
  EXPECT_EQ(refusal(job.now, job.state, job.options, join), "n1 has joined already");
  join.position = 0;
  EXPECT_EQ(refusal(job.now, job.state, job.options, join), std::nullopt);
  join.position = 2;
  EXPECT_EQ(refusal(job.now, job.state, job.options, join), "n1 is not among the 2 hosts of this job");
  join.position.reset();
  EXPECT_EQ(refusal(job.now, job.state, job.options, join), "n1 is not among the 2 hosts of this job");
  job.closes(1);
  join.position = 1;
  EXPECT_EQ(refusal(job.now, job.state, job.options, join), std::nullopt);
}

TEST(KnownHosts, TheTimeoutNamesTheMissing) {
  Job job(known(3, 3, 3));
  job.options.expected_hosts.pop_back();
  job.joins("n0", 0);
  host_hopeless(job.state, 1, {ErrorKind::kPeer, "wrong token", {}});
  job.pass(600);
  EXPECT_EQ(job.settle(), "join-timeout");
  EXPECT_EQ(job.last.reason, "1 of 3 nodes after 600 s; no word of host 2; n1: wrong token");
}

TEST(KnownHosts, AtTheTimeoutEnoughAreEnough) {
  Job job(known(1, 8, 8));
  job.joins("n0", 0);
  job.pass(600);
  EXPECT_EQ(job.next().kind, Kind::kOpenRound);
  EXPECT_EQ(job.next().reason, "round 0 with 1 node: no word of n1, n2, n3, n4 and 3 more");
}

TEST(KnownHosts, SparesAreNotWaitedFor) {
  Job job(known(1, 2, 3));
  job.joins("n1", 1);
  job.joins("n0", 0);
  Decision decision = job.next();
  EXPECT_EQ(decision.kind, Kind::kOpenRound);
  EXPECT_EQ(decision.reason, "round 0 with 2 nodes: all are there");
  EXPECT_THAT(decision.members, ElementsAre(2, 1));
}

TEST(KnownHosts, ASpareThatIsThereSoonerTakesNobodysPlace) {
  Job job(known(2, 2, 3));
  job.joins("n1", 1);
  job.joins("n2", 2);
  job.pass(100);
  EXPECT_EQ(job.next().kind, Kind::kWait);
  EXPECT_EQ(reason_text(job.next(), job.now), "1 of 2 nodes; waiting for n0, 500 s left");
  job.joins("n0", 0);
  EXPECT_EQ(job.settle(), "open ");
  EXPECT_THAT(job.state.members, ElementsAre(3, 1)) << "n0 and n1";
}

TEST(KnownHosts, TheHopelessMakeRoomForTheNext) {
  Job job(known(2, 2, 4));
  job.joins("n1", 1);
  job.joins("n3", 3);
  host_hopeless(job.state, 0, {ErrorKind::kPeer, "ssh: connection refused", {}});
  EXPECT_EQ(reason_text(job.next(), job.now), "1 of 2 nodes; waiting for n2, 600 s left");
  job.joins("n2", 2);
  EXPECT_EQ(job.settle(), "open ");
  EXPECT_EQ(job.reasons.back(), "round 0 with 2 nodes: all are there");
  EXPECT_THAT(job.state.members, ElementsAre(1, 3)) << "n1 and n2";
}

TEST(KnownHosts, AtTheTimeoutASpareTakesThePlaceOfTheSlow) {
  Job job(known(2, 2, 3));
  job.joins("n1", 1);
  job.joins("n2", 2);
  job.pass(600);
  EXPECT_EQ(job.settle(), "open ");
  EXPECT_EQ(job.reasons.back(), "round 0 with 2 nodes: no word of n0");
  EXPECT_THAT(job.state.members, ElementsAre(1, 2));
}

// --- late ones ------------------------------------------------------------------------------------------------------

TEST(Growing, NowStopsTheRoundOnceTheyHaveSettled) {
  Job job(Job::nodes(1, 4));
  job.joins("n1");
  job.pass(3);
  ASSERT_EQ(job.settle(), "open ");
  job.pass(50);
  job.joins("n2");
  job.pass(0.4);
  EXPECT_EQ(job.next().kind, Kind::kWait);
  EXPECT_EQ(job.next().waiting, Waiting::kNewcomers);
  EXPECT_EQ(job.next().wake_at, job.now + sec(0.1));
  job.joins("n3");
  job.pass(0.4);
  EXPECT_EQ(job.next().kind, Kind::kWait);
  job.pass(0.1);
  EXPECT_EQ(job.next().reason, "n3 has joined: 3 nodes instead of 1");
  EXPECT_EQ(job.settle(), "stop ");
  EXPECT_EQ(job.last.waiting, Waiting::kWorkers);
  job.all_end();
  EXPECT_EQ(job.settle(), "open ");
  EXPECT_EQ(job.reasons.back(), "round 1 with 3 nodes: n3 has joined: 3 nodes instead of 1");
  EXPECT_THAT(job.state.members, ElementsAre(1, 2, 3));
  EXPECT_EQ(job.state.restarts, 0);
}

TEST(Growing, NotWhenSomebodyIsDone) {
  Job job(Job::nodes(2, 4));
  NodeId first = job.joins("n1");
  job.joins("n2");
  job.pass(3);
  ASSERT_EQ(job.settle(), "open ");
  job.ends(first, true);
  job.joins("n3");
  job.pass(1);
  EXPECT_EQ(job.settle(), "");
  EXPECT_EQ(job.last.reason, "round 0 runs on 2 nodes; 1 node not in it");
  job.closes(first);
  EXPECT_EQ(job.settle(), "") << "it had been done";
}

TEST(Growing, AtARestartTheyWait) {
  for (Grow grow : {Grow::kRestart, Grow::kNever}) {
    Job job(Job::nodes(1, 4));
    job.options.grow = grow;
    job.options.max_restarts = 1;
    NodeId first = job.joins("n1");
    job.pass(3);
    ASSERT_EQ(job.settle(), "open ");
    job.joins("n2");
    job.pass(100);
    EXPECT_EQ(job.settle(), "");
    job.ends(first, false);
    EXPECT_EQ(job.settle(), "stop judge open ");
    EXPECT_EQ(job.state.members.size(), grow == Grow::kRestart ? 2 : 1);
  }
}

TEST(Growing, NeverStillReplacesTheLost) {
  Job job(Job::nodes(1, 4));
  job.options.grow = Grow::kNever;
  job.joins("n1");
  NodeId second = job.joins("n2");
  job.pass(3);
  ASSERT_EQ(job.settle(), "open ");
  job.joins("n3");
  job.joins("n4");
  job.closes(second);
  job.settle();
  job.all_end();
  job.pass(0.5);
  EXPECT_EQ(job.settle(), "open ");
  EXPECT_THAT(job.state.members, ElementsAre(1, 3));
}

TEST(Growing, NodesBeyondMaxAreSparesAndStepIn) {
  Job job(Job::nodes(2, 2));
  job.joins("n1");
  NodeId second = job.joins("n2");
  ASSERT_EQ(job.settle(), "open ");
  job.joins("n3");
  job.pass(10);
  EXPECT_EQ(job.settle(), "");
  job.closes(second);
  EXPECT_EQ(job.settle(), "stop ");
  job.all_end();
  job.pass(0.5);
  EXPECT_EQ(job.settle(), "open ");
  EXPECT_THAT(job.state.members, ElementsAre(1, 3)) << "the spare has the rank of the lost";
  EXPECT_EQ(job.state.restarts, 0);
}

// --- fixed ranks ----------------------------------------------------------------------------------------------------

TEST(FixedRanks, ThoseThatNeverCameAreNamed) {
  Job job(Job::nodes(4, 4));
  job.options.lease = std::chrono::hours(1);
  job.options.fixed_ranks = true;
  job.options.way_in = "start it there";
  job.joins("a", {}, 0);
  job.joins("b", {}, 2);
  job.pass(600);
  EXPECT_EQ(job.settle(), "join-timeout");
  EXPECT_EQ(job.last.reason,
            "2 of 4 nodes after 600 s; a, b are there; no word of node rank 1, 3; start it there, or give them longer "
            "with --join-timeout");
}

TEST(FixedRanks, EveryRankIsNeededAndKept) {
  Job job(Job::nodes(1, 3));
  job.options.fixed_ranks = true;
  job.joins("b", {}, 2);
  NodeId second = job.joins("c", {}, 0);
  job.pass(100);
  EXPECT_EQ(reason_text(job.next(), job.now), "2 of 3 nodes; waiting for more, 500 s left");
  job.joins("a", {}, 1);
  EXPECT_EQ(job.settle(), "open ");
  EXPECT_THAT(job.state.members, ElementsAre(2, 3, 1));
  job.closes(second);
  job.settle();
  job.all_end();
  job.pass(0.5);
  EXPECT_EQ(job.settle(), "");
  job.joins("d", {}, 0);
  EXPECT_EQ(job.settle(), "open ");
  EXPECT_THAT(job.state.members, ElementsAre(4, 3, 1));
}

// --- ranks ----------------------------------------------------------------------------------------------------------

TEST(Placement, NodesKeepTheirRanksAndOthersFillHoles) {
  struct Case {
    std::vector<NodeId> lost;
    int newcomers;
    std::vector<NodeId> expected;
  };
  const std::vector<Case> cases = {
      {{}, 0, {1, 2, 3, 4}},     {{2}, 1, {1, 5, 3, 4}}, {{2}, 0, {1, 4, 3}},    {{1, 3}, 1, {4, 2, 5}},
      {{1, 3}, 2, {5, 2, 6, 4}}, {{1, 2, 3}, 0, {4}},    {{4}, 3, {1, 2, 3, 5}},
  };
  for (const Case& each : cases) {
    Job job(Job::nodes(1, 4));
    for (int i = 0; i < 4; ++i) job.joins("n" + std::to_string(i));
    ASSERT_EQ(job.settle(), "open ");
    for (NodeId node : each.lost) job.closes(node);
    for (int i = 0; i < each.newcomers; ++i) job.joins("new");
    EXPECT_EQ(choose_members(job.state, job.options), each.expected);
  }
}

TEST(Placement, RanksAndRolesAreCountedUp) {
  Job job(Job::nodes(3, 3));
  for (auto [workers, role] : {std::pair(2, "a"), std::pair(3, "b"), std::pair(4, "a")}) {
    Join join;
    join.host = "n";
    join.workers = workers;
    join.role = role;
    node_joined(job.now, job.state, join);
  }
  auto starts = place(job.state, {3, 1, 2}, 5, 2);
  ASSERT_EQ(starts.size(), 3);
  std::vector<std::vector<int>> got;
  got.reserve(starts.size());
  for (const job::Round& s : starts)
    got.push_back({s.group_rank, s.group_world_size, s.first_rank, s.world_size, s.first_role_rank, s.role_world_size,
                   s.number, s.restarts});
  EXPECT_THAT(got, ElementsAre(ElementsAre(0, 3, 0, 9, 0, 6, 5, 2), ElementsAre(1, 3, 4, 9, 4, 6, 5, 2),
                               ElementsAre(2, 3, 6, 9, 0, 3, 5, 2)));
}

}  // namespace
}  // namespace muster::rendezvous
