#include "muster/launcher/head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "muster/process/pty.h"

namespace muster::launcher {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

rendezvous::MembershipOptions four_hosts() {
  rendezvous::MembershipOptions options;
  options.min_nodes = options.max_nodes = options.expected = 4;
  options.expected_hosts = {"n1", "n2", "n3", "n17"};
  return options;
}

cluster::StartFailure failure(const std::string& message) {
  return {cluster::StartCause::kUnreachable, {ErrorKind::kPeer, message, {}}, true};
}

void join(rendezvous::State& state, int position) {
  rendezvous::Join join;
  join.position = position;
  rendezvous::node_joined(Clock::now(), state, join);
}

TEST(WaitingLine, NamesWhoIsMissingAndWhy) {
  rendezvous::State state;
  for (int position : {0, 1, 2}) join(state, position);
  EXPECT_EQ(waiting_line(state, four_hosts(), {{3, "ssh: connection refused, attempt 3"}}),
            "3 of 4 nodes · waiting for n17 (ssh: connection refused, attempt 3)");
}

TEST(WaitingLine, DoesNotNameThemAll) {
  rendezvous::MembershipOptions options = four_hosts();
  options.expected = options.max_nodes = 7;
  EXPECT_EQ(waiting_line({}, options, {}), "0 of 7 nodes · waiting for n1, n2, n3, n17 and 3 more");
}

TEST(WaitingLine, OfASlowHostWhoseSpareIsThere) {
  rendezvous::MembershipOptions options = four_hosts();
  options.max_nodes = 3;
  rendezvous::State state;
  for (int position : {1, 3}) join(state, position);
  EXPECT_EQ(waiting_line(state, options, {}), "1 of 3 nodes · waiting for n1, n3");
  join(state, 2);
  EXPECT_EQ(waiting_line(state, options, {{0, "setting up"}}), "2 of 3 nodes · waiting for n1 (setting up)");
}

TEST(WaitingLine, OfOneHost) {
  rendezvous::MembershipOptions options;
  options.min_nodes = options.max_nodes = options.expected = 1;
  options.expected_hosts = {"n1"};
  EXPECT_EQ(waiting_line({}, options, {}), "0 of 1 node · waiting for n1");
}

TEST(WaitingLine, NobodyKnowsWhoWillCome) {
  rendezvous::MembershipOptions options;
  options.min_nodes = options.max_nodes = 3;
  rendezvous::State state;
  join(state, 0);
  EXPECT_EQ(waiting_line(state, options, {}), "1 of 3 nodes");
  options.min_nodes = 1;
  EXPECT_EQ(waiting_line({}, options, {}), "0 of 3 nodes · 1 is needed");
  options.min_nodes = 2;
  EXPECT_EQ(waiting_line(state, options, {}), "1 of 3 nodes · 2 are needed");
  join(state, 1);
  EXPECT_EQ(waiting_line(state, options, {}), "2 of 3 nodes · last call");
}

TEST(WaitingLine, NumberedNodesHaveNoNameYet) {
  rendezvous::MembershipOptions options;
  options.min_nodes = options.max_nodes = 4;
  options.fixed_ranks = true;
  rendezvous::State state;
  rendezvous::Join second;
  second.rank = 1;
  rendezvous::node_joined(Clock::now(), state, second);
  EXPECT_EQ(waiting_line(state, options, {}), "1 of 4 nodes · waiting for node rank 0, 2, 3");
}

TEST(WaitingLine, TheSecondsAreSeenOnANarrowTerminal) {
  net::EventLoop loop;
  auto pty = process::open_pty(-1);
  ASSERT_TRUE(pty);
  process::set_columns(pty->master.get(), 80);
  output::Console console(loop, {.stdout_fd = -1, .stderr_fd = pty->slave.get()});
  const job::JobSpec job;
  const rendezvous::MembershipOptions membership = four_hosts();
  Head head(console, job, membership);
  head.set_failure(3, failure("ssh: connection refused by a gateway on the way"), 3);
  rendezvous::State state;
  for (int position : {0, 1, 2}) join(state, position);
  state.began = Clock::now();
  head.show_waiting(state, state.began + std::chrono::seconds(12));
  console.flush(Deadline::in(std::chrono::seconds(10)));
  char shown[256];
  const ssize_t size = ::read(pty->master.get(), shown, sizeof shown);
  ASSERT_GT(size, 0);
  EXPECT_EQ(std::string_view(shown, static_cast<size_t>(size)),
            "muster: 3 of 4 nodes · waiting for n17 (ssh: connection refused by a ga… · 12 s\x1b[0m");
}

// What a file gets of a head of four_hosts(), three of whom are there.
class InAFile : public ::testing::Test {
 protected:
  InAFile() {
    for (int position : {0, 1, 2}) join(state_, position);
    state_.began = Clock::now();
  }
  ~InAFile() override { std::fclose(file_); }
  void show() { head_.show_waiting(state_, state_.began + std::chrono::seconds(2)); }
  std::string said() {
    console_.flush(Deadline::in(std::chrono::seconds(10)));
    std::string all(4096, 0);
    all.resize(static_cast<size_t>(::pread(::fileno(file_), all.data(), all.size(), 0)));
    return all;
  }

  std::FILE* file_ = std::tmpfile();
  rendezvous::State state_;
  net::EventLoop loop_;
  output::Console console_{loop_, {.threshold = LogLevel::kDebug, .stdout_fd = -1, .stderr_fd = ::fileno(file_)}};
  job::JobSpec job_;
  rendezvous::MembershipOptions membership_ = four_hosts();
  Head head_{console_, job_, membership_};
};

TEST_F(InAFile, AnotherAttemptIsNotWorthALine) {
  for (int attempt = 1; attempt < 5; ++attempt) {
    head_.set_progress(3, {cluster::Progress::Stage::kConnecting});
    show();
    head_.set_failure(3, failure("ssh: connection timed out"), attempt);
    show();
  }
  EXPECT_EQ(said(),
            "muster: 3 of 4 nodes · waiting for n17 (connecting)\n"
            "muster: 3 of 4 nodes · waiting for n17 (ssh: connection timed out)\n");
}

TEST_F(InAFile, WhoSaidThatItStopsDoesNotSayThatItHas) {
  rendezvous::Decision stop;
  stop.kind = rendezvous::Decision::Kind::kStopRound;
  stop.reason = "muster received SIGINT";
  rendezvous::stop_requested(state_, 2);
  head_.changed(state_, stop);
  EXPECT_EQ(said(), "");
}

// A head of four_hosts() after a first round, whose n17 is lost.
class LostNode : public ::testing::Test {
 protected:
  LostNode() {
    job_.command.entrypoint = "train.py";
    state_.round = 0;
    state_.lost = {
        {.cause = rendezvous::Loss::Cause::kSilent, .host = "n17", .lasting = std::chrono::milliseconds(2500)}};
    head_.changed(state_, {});
  }
  std::string ended(job::Ending ending) {
    rendezvous::Decision decision;
    decision.kind = rendezvous::Decision::Kind::kEndJob;
    decision.ending = ending;
    decision.exit_code = 125;
    decision.reason = "1 of 2 nodes after 8 s";
    return head_.ended(decision, {});
  }

  net::EventLoop loop_;
  output::Console console_{loop_, {.stdout_fd = -1, .stderr_fd = -1}};
  job::JobSpec job_;
  rendezvous::MembershipOptions membership_ = four_hosts();
  rendezvous::State state_;
  Head head_{console_, job_, membership_};
};

TEST_F(LostNode, TheReportSaysWhyItDidNotComeBack) {
  head_.set_failure(3, failure("ssh: connection timed out"), 3);
  head_.refused("n9", "wrong token");
  const std::string report = ended(job::Ending::kNodeLost);
  EXPECT_THAT(report, HasSubstr("n17 is lost: no word for 2.5 s"));
  EXPECT_THAT(report, HasSubstr("n17: ssh: connection timed out, attempt 3"));
  EXPECT_THAT(report, HasSubstr("refused n9: wrong token"));
}

TEST_F(LostNode, WhatTheMessageSaysIsNotSaidAgain) {
  state_.lost.clear();
  head_.set_failure(0, failure("/tmp/x does not exist"), 0);
  head_.set_progress(1, {cluster::Progress::Stage::kConnecting});
  head_.set_failure(2, failure("ssh: connection refused"), 1);
  rendezvous::host_hopeless(state_, 0, {ErrorKind::kPeer, "/tmp/x does not exist", {}});
  head_.changed(state_, {});
  const std::string report = ended(job::Ending::kJoinTimeout);
  EXPECT_THAT(report, Not(AnyOf(HasSubstr("n1"), HasSubstr("n2"))));
  EXPECT_THAT(report, HasSubstr("n3: ssh: connection refused, attempt 1"));
}

TEST_F(LostNode, WhoWasRefusedIsTheFirstToBeNamedWhereNobodyIsExpected) {
  membership_.expected = 0;
  membership_.expected_hosts.clear();
  state_ = {};
  head_.changed(state_, {});
  head_.refused("n2", "node rank 0 is taken by n1; n2 claims it too");
  EXPECT_EQ(
      ended(job::Ending::kJoinTimeout),
      "muster: train.py failed: refused n2: node rank 0 is taken by n1; n2 claims it too; 1 of 2 nodes after 8 s\n");
}

TEST_F(LostNode, WhoWasLetInAfterAllIsNotMissing) {
  head_.set_progress(2, {cluster::Progress::Stage::kStarting});
  head_.refused("n3", "it has joined already");
  head_.refused("10.0.0.3", "wrong token");
  rendezvous::Node node;
  node.join.host = "n3";
  node.join.position = 2;
  node.join.addresses = {"192.168.0.3", "10.0.0.3"};
  head_.joined(node);
  EXPECT_THAT(ended(job::Ending::kNodeLost), Not(AnyOf(HasSubstr("n3"), HasSubstr("10.0.0.3"))));
}

TEST_F(LostNode, WhoWasRefusedBeforeTheRoundIsNotMissedInIt) {
  head_.refused("10.0.0.9", "wrong token");
  rendezvous::Decision open;
  open.kind = rendezvous::Decision::Kind::kOpenRound;
  head_.changed(state_, open);
  EXPECT_THAT(ended(job::Ending::kNodeLost), Not(HasSubstr("10.0.0.9")));
}

}  // namespace
}  // namespace muster::launcher
