#include "muster/launcher/head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

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
  agent::Console console(loop, {.stdout_fd = -1, .stderr_fd = pty->slave.get()});
  const agent::JobSpec job;
  const rendezvous::MembershipOptions membership = four_hosts();
  Head head(console, job, membership);
  head.set_note(3, "ssh: connection refused by a gateway on the way, attempt 3");
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

// A head of four_hosts() after a first round, whose n17 is lost.
class LostNode : public ::testing::Test {
 protected:
  LostNode() {
    state_.round = 0;
    state_.lost = {"n17 is lost: no word for 2.5 s"};
    head_.changed(state_, {});
  }
  std::string ended(const char* ending) {
    rendezvous::Decision decision;
    decision.kind = rendezvous::Decision::Kind::kEndJob;
    decision.ending = ending;
    decision.exit_code = 125;
    return head_.ended(decision);
  }

  net::EventLoop loop_;
  agent::Console console_{loop_, {.stdout_fd = -1, .stderr_fd = -1}};
  agent::JobSpec job_;
  rendezvous::MembershipOptions membership_ = four_hosts();
  rendezvous::State state_;
  Head head_{console_, job_, membership_};
};

TEST_F(LostNode, TheReportSaysWhyItDidNotComeBack) {
  head_.set_note(3, "ssh: connection timed out, attempt 3");
  head_.refused("n9", "wrong token");
  const std::string report = ended("node-lost");
  EXPECT_THAT(report, HasSubstr("n17 is lost: no word for 2.5 s"));
  EXPECT_THAT(report, HasSubstr("n17: ssh: connection timed out, attempt 3"));
  EXPECT_THAT(report, HasSubstr("refused n9: wrong token"));
}

TEST_F(LostNode, WhoWasLetInAfterAllIsNotMissing) {
  head_.set_note(2, "starting");
  head_.refused("n3", "it has joined already");
  head_.refused("10.0.0.3", "wrong token");
  rendezvous::Node node;
  node.join.host = "n3";
  node.join.position = 2;
  node.join.addresses = {"192.168.0.3", "10.0.0.3"};
  head_.joined(node);
  EXPECT_THAT(ended("node-lost"), Not(AnyOf(HasSubstr("n3"), HasSubstr("10.0.0.3"))));
}

TEST_F(LostNode, WhoWasRefusedBeforeTheRoundIsNotMissedInIt) {
  head_.refused("10.0.0.9", "wrong token");
  rendezvous::Decision open;
  open.kind = rendezvous::Decision::Kind::kOpenRound;
  head_.changed(state_, open);
  EXPECT_THAT(ended("node-lost"), Not(HasSubstr("10.0.0.9")));
}

}  // namespace
}  // namespace muster::launcher
