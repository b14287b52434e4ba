// The engine of a job on one machine, with a node that says what a test wants.
#include "muster/rendezvous/engine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>

#include "muster/rendezvous/one_node_link.h"
#include "muster/rendezvous/test/channel_pair.h"

namespace muster::rendezvous {
namespace {

using test::run_until;

struct Client final : EngineClient {
  std::vector<std::string> lines;
  std::vector<NodeOutcomes> last_outcomes;

  void joined(const Node& node) override { lines.push_back("joined " + node.join.host); }
  void gone(const Node& /*node*/, const Loss& /*loss*/) override { FAIL() << "it cannot be lost"; }
  void changed(const State& /*state*/, const Decision& /*decision*/) override {}
  void round_started(const State& state) override { lines.push_back(fmt::format("started {}", state.round)); }
  void worker_failed(const Node& /*node*/, const WorkerFailed& failed) override {
    lines.push_back(fmt::format("rank {}: {}", failed.rank, failed.what));
  }
  Failure judge(int round, const std::vector<NodeOutcomes>& outcomes) override {
    lines.push_back(fmt::format("judge {}: {}", round, outcomes.at(0).bytes + outcomes.at(0).start_error));
    Failure failure;
    failure.text = "rank 1 failed";
    failure.fingerprint = outcomes.at(0).bytes;
    failure.exit_code = kKilled;
    failure.can_restart = outcomes.at(0).start_error.empty();
    return failure;
  }
  std::string ended(const Decision& decision, const std::vector<NodeOutcomes>& outcomes) override {
    lines.push_back("ended " + decision.reason);
    last_outcomes = outcomes;
    return "the report";
  }
};

class EngineTest : public ::testing::Test {
 protected:
  void begin(int max_restarts = 0, int crash_loop = 0) {
    EngineOptions options;
    options.membership.lease = Duration(0);
    options.membership.max_restarts = max_restarts;
    options.membership.crash_loop = crash_loop;
    options.stop_grace = std::chrono::seconds(7);
    link_.emplace(loop_, options, client_);
    Join join;
    join.host = "here";
    join.workers = 4;
    link_->join(join, [this](const Message& message) { told_.push_back(message); });
  }
  // The last message, once there is one of that kind.
  template <typename M>
  M next() {
    EXPECT_TRUE(run_until(loop_, [&] { return !told_.empty() && std::holds_alternative<M>(told_.back()); }));
    M message = std::get<M>(told_.back());
    told_.clear();
    return message;
  }
  // A round that runs.
  StartRound start(int round = 0) {
    EXPECT_EQ(next<OpenStore>().round, round);
    link_->say(StoreOpened{round, 4711, ""});
    StartRound start = next<StartRound>();
    link_->say(RoundStarted{round, {101, 102, 103, 104}});
    return start;
  }
  void fail(int round, const std::string& outcomes) {
    link_->say(WorkerFailed{round, 1, "exit code 1"});
    EXPECT_EQ(next<StopRound>().round, round);
    link_->say(RoundEnded{.round = round, .succeeded = false, .outcomes = outcomes, .start_error = {}});
  }

  net::EventLoop loop_;
  Client client_;
  std::optional<OneNodeLink> link_;
  std::vector<Message> told_;
};

TEST_F(EngineTest, ARoundIsPlacedAndItsSuccessEndsTheJob) {
  begin();
  const job::Round round = start().round;
  EXPECT_EQ(round.world_size, 4);
  EXPECT_EQ(round.role_world_size, 4);
  EXPECT_EQ(round.group_world_size, 1);
  EXPECT_EQ(round.master_port, 4711);
  EXPECT_EQ(link_->engine().pids(1), (std::vector<int>{101, 102, 103, 104}));
  link_->say(RoundEnded{.round = 0, .succeeded = true, .outcomes = {}, .start_error = {}});
  EXPECT_EQ(next<EndJob>().exit_code, 0);
  EXPECT_EQ(client_.lines,
            (std::vector<std::string>{"joined here", "started 0", "ended every worker on 1 node has ended with 0"}));
}

TEST_F(EngineTest, AFailureIsARestartUntilNoneIsLeft) {
  begin(1);
  start();
  fail(0, "a");
  EXPECT_EQ(start(1).round.restarts, 1);
  fail(1, "b");
  const EndJob end = next<EndJob>();
  EXPECT_EQ(end.exit_code, kKilled) << "at once: this process is not about to be lost with its worker";
  EXPECT_EQ(end.text, "the report");
  EXPECT_EQ(end.reason, "rank 1 failed; all 1 restarts are used");
  EXPECT_TRUE(client_.last_outcomes.empty()) << "they were judged";
}

TEST_F(EngineTest, ACrashLoopEndsTheJobAsOnSeveralNodes) {
  begin(9, 2);
  start();
  fail(0, "same");
  start(1);
  fail(1, "same");
  next<EndJob>();
  EXPECT_EQ(link_->engine().state().ending, job::Ending::kCrashLoop);
}

TEST_F(EngineTest, ASignalStopsTheRoundAndNamesNoHost) {
  begin(3);
  start();
  link_->say(StopRequest{SIGTERM});
  const StopRound stop = next<StopRound>();
  EXPECT_EQ(stop.signal, SIGTERM);
  EXPECT_EQ(stop.grace, std::chrono::seconds(7));
  link_->say(RoundEnded{.round = 0, .succeeded = false, .outcomes = "how they ended", .start_error = {}});
  const EndJob end = next<EndJob>();
  EXPECT_EQ(end.exit_code, 128 + SIGTERM);
  EXPECT_EQ(end.reason, "muster received SIGTERM");
  ASSERT_EQ(client_.last_outcomes.size(), 1U);
  EXPECT_EQ(client_.last_outcomes[0].bytes, "how they ended");
}

TEST_F(EngineTest, ASignalBeforeTheFirstRoundIsTheEnd) {
  begin();
  link_->say(StopRequest{SIGINT});
  EXPECT_EQ(next<EndJob>().exit_code, 128 + SIGINT);
}

TEST_F(EngineTest, ASignalWhileOutputIsDeliveredIsTheEndOfAJobThatSucceeded) {
  begin();
  start();
  link_->say(RoundEnded{.round = 0, .succeeded = true, .outcomes = {}, .start_error = {}});
  EXPECT_EQ(next<EndJob>().exit_code, 0);
  link_->say(StopRequest{SIGTERM});
  EXPECT_EQ(link_->engine().state().ending, job::Ending::kSignalled);
  EXPECT_EQ(client_.lines.back(), "ended muster received SIGTERM");
}

TEST_F(EngineTest, AStoreThatCannotBeOpenedEndsTheJob) {
  begin(3);
  next<OpenStore>();
  link_->say(StoreOpened{0, 0, "port 80: permission denied"});
  next<EndJob>();
  EXPECT_EQ(client_.lines[1], "judge 0: port 80: permission denied");
}

TEST_F(EngineTest, WhatIsSaidOfAnotherRoundChangesNothing) {
  begin();
  start();
  link_->say(RoundEnded{.round = 7, .succeeded = false, .outcomes = {}, .start_error = "never begun"});
  link_->say(WorkerFailed{7, 0, "exit code 1"});
  link_->say(RoundEnded{.round = 0, .succeeded = true, .outcomes = {}, .start_error = {}});
  EXPECT_EQ(next<EndJob>().exit_code, 0);
}

}  // namespace
}  // namespace muster::rendezvous
