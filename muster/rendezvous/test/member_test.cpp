#include "muster/rendezvous/member.h"

#include <gtest/gtest.h>

#include <thread>

#include "muster/net/socket.h"
#include "muster/rendezvous/acceptor.h"
#include "muster/rendezvous/test/channel_pair.h"

namespace muster::rendezvous {
namespace {

using std::chrono::milliseconds;
using test::run_until;

// A member, and a coordinator that says what a test wants.
class MemberTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Acceptor::Handlers handlers;
    handlers.joined = [this](std::unique_ptr<Channel> channel) {
      coordinator_ = std::move(channel);
      Channel::Handlers answers;
      answers.received = [this](std::string_view bytes) { heard_.push_back(*decode(bytes)); };
      coordinator_->resume_on(loop_, std::move(answers));
    };
    AcceptorOptions options;
    options.token = token_;
    acceptor_ = std::make_unique<Acceptor>(loop_, log_, options, std::move(handlers));
    auto listener = net::listen_tcp({});
    ASSERT_TRUE(listener);
    Member::Handlers told;
    told.told = [this](const Message& message) { told_.push_back(message); };
    told.refused = [this](const Error& why) { refused_ = why.text(); };
    told.lost = [this](const Error& why) { lost_ = why.message; };
    const std::vector<std::string> endpoints = {fmt::format("127.0.0.1:{}", listener->port)};
    acceptor_->listen(std::move(listener->fd));
    member_ = std::make_unique<Member>(loop_, token_, endpoints, Join(), Deadline::in(std::chrono::seconds(10)),
                                       std::move(told));
    ASSERT_TRUE(run_until(loop_, [&] { return !heard_.empty(); }));  // Join
    heard_.clear();
  }
  void welcome(Duration lease) {
    coordinator_->send(encode(Welcome{.node = 1, .job = "job", .lease = lease, .address = "127.0.0.1"}));
    ASSERT_TRUE(run_until(loop_, [&] { return !told_.empty(); }));
  }

  net::EventLoop loop_;
  Log log_ = Log::to_stderr(LogLevel::kError);
  job::Token token_ = job::Token::random();
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<Channel> coordinator_;
  std::unique_ptr<Member> member_;
  std::vector<Message> heard_;  // by the coordinator
  std::vector<Message> told_;   // to the agent
  std::string lost_, refused_;
};

TEST_F(MemberTest, IsWelcomedAndKnowsBothAddresses) {
  welcome(std::chrono::seconds(10));
  EXPECT_EQ(std::get<Welcome>(told_.at(0)).node, 1U);
  EXPECT_EQ(member_->local_address(), "127.0.0.1");
  EXPECT_EQ(member_->coordinator().host(), "127.0.0.1");
  EXPECT_LE(member_->join_sent(), Clock::now());
  member_->tell(StopRequest{15});
  ASSERT_TRUE(run_until(loop_, [&] { return !heard_.empty(); }));
  EXPECT_EQ(std::get<StopRequest>(heard_[0]).signal, 15);
  EXPECT_EQ(member_->unsent(), 0U);
}

TEST_F(MemberTest, IsRefusedWithTheReasonAndNothingElse) {
  coordinator_->send(encode(Refuse{"there are enough", "start fewer"}));
  ASSERT_TRUE(run_until(loop_, [&] { return !refused_.empty(); }));
  EXPECT_EQ(refused_, "there are enough; start fewer");
  coordinator_.reset();
  for (int turn = 0; turn < 20; ++turn) loop_.run_until(Deadline::in(milliseconds(1)));
  EXPECT_EQ(lost_, "") << "that it is closed is not news";
  EXPECT_TRUE(told_.empty());
}

TEST_F(MemberTest, AConnectionThatEndsBeforeAWordIsARefusal) {
  coordinator_.reset();
  ASSERT_TRUE(run_until(loop_, [&] { return !refused_.empty(); }));
  EXPECT_EQ(lost_, "");
}

TEST_F(MemberTest, AConnectionThatEndsLaterIsALoss) {
  welcome(std::chrono::seconds(10));
  coordinator_.reset();
  ASSERT_TRUE(run_until(loop_, [&] { return !lost_.empty(); }));
  EXPECT_TRUE(lost_.starts_with("connection closed by 127.0.0.1:")) << lost_;
  EXPECT_EQ(refused_, "");
}

TEST_F(MemberTest, HearsTheEndOfAJobItIsTooLateFor) {
  coordinator_->send(encode(EndJob{.exit_code = 3, .text = "over"}));
  ASSERT_TRUE(run_until(loop_, [&] { return !told_.empty(); }));
  EXPECT_EQ(std::get<EndJob>(told_[0]).exit_code, 3);
}

TEST_F(MemberTest, AnswersEveryPingAndKeepsItToItself) {
  welcome(std::chrono::seconds(10));
  for (uint64_t sequence : {7, 8}) coordinator_->send(encode(Ping{sequence}));
  ASSERT_TRUE(run_until(loop_, [&] { return heard_.size() == 2; }));
  EXPECT_EQ(std::get<Pong>(heard_[0]).sequence, 7U);
  EXPECT_EQ(std::get<Pong>(heard_[1]).sequence, 8U);
  EXPECT_EQ(told_.size(), 1U) << "Welcome alone";
}

TEST_F(MemberTest, TakesACoordinatorForLostThatHasNotPingedForALease) {
  welcome(milliseconds(200));
  const TimePoint began = Clock::now();
  ASSERT_TRUE(run_until(loop_, [&] { return !lost_.empty(); }));
  EXPECT_GE(Clock::now() - began, milliseconds(200));
  EXPECT_EQ(lost_, "it has not been heard for 0.2 s");
}

// A job is suspended, and its coordinator goes on a little later than this node.
TEST_F(MemberTest, APauseOfItsOwnBeginsTheCountAnew) {
  welcome(std::chrono::seconds(1));
  loop_.run_until(Deadline::in(milliseconds(875)));
  std::this_thread::sleep_for(milliseconds(625));
  loop_.run_until(Deadline::in(milliseconds(750)));
  EXPECT_EQ(lost_, "");
}

TEST_F(MemberTest, WaitsNoLongerWhenTheJobIsOver) {
  welcome(milliseconds(100));
  coordinator_->send(encode(EndJob{.exit_code = 0, .text = {}}));
  loop_.run_until(Deadline::in(milliseconds(300)));
  EXPECT_EQ(lost_, "");
}

}  // namespace
}  // namespace muster::rendezvous
