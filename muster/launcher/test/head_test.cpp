#include "muster/launcher/head.h"

#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

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
  options.expected = 7;
  EXPECT_EQ(waiting_line({}, options, {}), "0 of 7 nodes · waiting for n1, n2, n3, n17 and 3 more");
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

}  // namespace
}  // namespace muster::launcher
