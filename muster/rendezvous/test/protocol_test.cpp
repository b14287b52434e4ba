#include "muster/rendezvous/protocol.h"

#include <gtest/gtest.h>

#include <limits>

#include "muster/base/bytes.h"

namespace muster::rendezvous {
namespace {

using std::chrono::seconds;

// One of each kind, no field at its default.
std::vector<Message> one_of_each() {
  return {
      Join{"n1", 8, "trainer", 3, 2, 4711, {"10.0.0.1", "fe80::1"}, 2, 4, true},
      StoreOpened{1, 65535, "no port"},
      RoundStarted{2, {100, 200, 300}},
      WorkerFailed{3, 17, "SIGKILL"},
      RoundEnded{4, true, std::string("\0\xff", 2), "no such file"},
      StopRequest{15},
      Welcome{9, "1b4e28ba", seconds(10), "10.0.0.2"},
      Refuse{"there are enough", "start fewer"},
      OpenStore{5, {"10.0.0.1", "10.0.0.2"}},
      StartRound{{6, 1, 8, 16, 1, 2, 4, 12, 29500}, {"10.0.0.1", "192.168.0.1"}, "10.0.0.2"},
      StopRound{7, 9, seconds(30), "rank 3 failed"},
      PassSignal{64},
      EndJob{255, "the end", "why"},
      Beat{9, 1234567890123, 99, true},
      Echo{1234567890123, 99, 100, false},
      OutputHello{9},
      Chunk{1, "hello\n"},
      Ping{1234567890124},
      Pong{1234567890125},
      Goodbye{9},
      OutputTaken{1234567890126},
  };
}

TEST(Protocol, EveryKindHasASample) {
  auto messages = one_of_each();
  ASSERT_EQ(messages.size(), std::variant_size_v<Message>);
  for (size_t i = 0; i < messages.size(); ++i) EXPECT_EQ(messages[i].index(), i);
}

TEST(Protocol, WhatIsWrittenIsRead) {
  for (const Message& message : one_of_each()) {
    auto read = decode(encode(message));
    ASSERT_TRUE(read) << message.index() << ": " << read.error().text();
    EXPECT_EQ(read->index(), message.index());
    EXPECT_EQ(encode(*read), encode(message));
  }
}

// The round trip above would not notice a field that is neither written nor read.
TEST(Protocol, NoFieldIsForgotten) {
  auto messages = one_of_each();
  auto join = std::get<Join>(*decode(encode(messages[0])));
  EXPECT_EQ(join.host, "n1");
  EXPECT_EQ(join.workers, 8);
  EXPECT_EQ(join.role, "trainer");
  EXPECT_EQ(join.rank, 3);
  EXPECT_EQ(join.position, 2);
  EXPECT_EQ(join.agent_pid, 4711);
  EXPECT_EQ(join.addresses, (std::vector<std::string>{"10.0.0.1", "fe80::1"}));
  EXPECT_EQ(join.min_nodes, 2);
  EXPECT_EQ(join.max_nodes, 4);
  EXPECT_TRUE(join.chose_addresses);
  auto opened = std::get<StoreOpened>(*decode(encode(messages[1])));
  EXPECT_EQ(opened.round, 1);
  EXPECT_EQ(opened.port, 65535);
  EXPECT_EQ(opened.error, "no port");
  auto started = std::get<RoundStarted>(*decode(encode(messages[2])));
  EXPECT_EQ(started.round, 2);
  EXPECT_EQ(started.pids, (std::vector<int>{100, 200, 300}));
  auto failed = std::get<WorkerFailed>(*decode(encode(messages[3])));
  EXPECT_EQ(failed.round, 3);
  EXPECT_EQ(failed.rank, 17);
  EXPECT_EQ(failed.what, "SIGKILL");
  auto ended = std::get<RoundEnded>(*decode(encode(messages[4])));
  EXPECT_EQ(ended.round, 4);
  EXPECT_TRUE(ended.succeeded);
  EXPECT_EQ(ended.outcomes, std::string("\0\xff", 2));
  EXPECT_EQ(ended.start_error, "no such file");
  EXPECT_EQ(std::get<StopRequest>(*decode(encode(messages[5]))).signal, 15);
  auto welcome = std::get<Welcome>(*decode(encode(messages[6])));
  EXPECT_EQ(welcome.node, 9);
  EXPECT_EQ(welcome.job, "1b4e28ba");
  EXPECT_EQ(welcome.lease, seconds(10));
  EXPECT_EQ(welcome.address, "10.0.0.2");
  auto refuse = std::get<Refuse>(*decode(encode(messages[7])));
  EXPECT_EQ(refuse.reason, "there are enough");
  EXPECT_EQ(refuse.hint, "start fewer");
  auto open = std::get<OpenStore>(*decode(encode(messages[8])));
  EXPECT_EQ(open.round, 5);
  EXPECT_EQ(open.members, (std::vector<std::string>{"10.0.0.1", "10.0.0.2"}));
  auto start = std::get<StartRound>(*decode(encode(messages[9])));
  EXPECT_EQ(start.round.number, 6);
  EXPECT_EQ(start.round.restarts, 1);
  EXPECT_EQ(start.round.first_rank, 8);
  EXPECT_EQ(start.round.world_size, 16);
  EXPECT_EQ(start.round.group_rank, 1);
  EXPECT_EQ(start.round.group_world_size, 2);
  EXPECT_EQ(start.round.first_role_rank, 4);
  EXPECT_EQ(start.round.role_world_size, 12);
  EXPECT_EQ(start.master_addresses, (std::vector<std::string>{"10.0.0.1", "192.168.0.1"}));
  EXPECT_EQ(start.round.master_port, 29500);
  EXPECT_EQ(start.own_address, "10.0.0.2");
  auto stop = std::get<StopRound>(*decode(encode(messages[10])));
  EXPECT_EQ(stop.round, 7);
  EXPECT_EQ(stop.signal, 9);
  EXPECT_EQ(stop.grace, seconds(30));
  EXPECT_EQ(stop.reason, "rank 3 failed");
  EXPECT_EQ(std::get<PassSignal>(*decode(encode(messages[11]))).signal, 64);
  auto end = std::get<EndJob>(*decode(encode(messages[12])));
  EXPECT_EQ(end.exit_code, 255);
  EXPECT_EQ(end.text, "the end");
  auto beat = std::get<Beat>(*decode(encode(messages[13])));
  EXPECT_EQ(beat.node, 9);
  EXPECT_EQ(beat.sequence, 1234567890123);
  EXPECT_EQ(beat.sent, 99);
  EXPECT_TRUE(beat.paused);
  auto echo = std::get<Echo>(*decode(encode(messages[14])));
  EXPECT_EQ(echo.sequence, 1234567890123);
  EXPECT_EQ(echo.sent, 99);
  EXPECT_EQ(echo.coordinator, 100);
  EXPECT_FALSE(echo.stands);
  EXPECT_EQ(std::get<OutputHello>(*decode(encode(messages[15]))).node, 9);
  auto chunk = std::get<Chunk>(*decode(encode(messages[16])));
  EXPECT_EQ(chunk.stream, 1);
  EXPECT_EQ(chunk.bytes, "hello\n");
}

TEST(Protocol, EveryPieceOfAMessageIsAnError) {
  for (const Message& message : one_of_each()) {
    std::string bytes = encode(message);
    for (size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(decode(std::string_view(bytes).substr(0, size))) << message.index() << " cut to " << size;
    EXPECT_FALSE(decode(bytes + '\0')) << message.index() << " with more behind it";
  }
}

TEST(Protocol, UnknownKindsAreNamed) {
  auto read = decode("\x7f");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().text(), "a message of unknown kind 127");
  EXPECT_EQ(decode("").error().text(), "an empty message");
}

template <typename M, typename Change>
M with(Change change) {
  M message;
  change(message);
  return message;
}

TEST(Protocol, WhatIsOutOfRangeIsRefused) {
  std::vector<Message> wrong = {
      with<Join>([](Join& join) { join.workers = 0; }),
      with<Join>([](Join& join) { join.workers = -1; }),
      with<Join>([](Join& join) { join.workers = 65537; }),
      with<Join>([](Join& join) { join.rank = -1; }),
      with<Join>([](Join& join) { join.position = -1; }),
      with<Join>([](Join& join) { join.agent_pid = -1; }),
      with<Join>([](Join& join) { join.min_nodes = -1; }),
      with<Join>([](Join& join) { join.max_nodes = -1; }),
      with<Join>([](Join& join) { join.addresses.resize(65537); }),
      StoreOpened{-1, 1, ""},
      RoundStarted{0, {-5}},
      RoundStarted{0, std::vector<int>(65537)},
      WorkerFailed{0, -1, ""},
      RoundEnded{-2, false, "", ""},
      StopRequest{0},
      StopRequest{65},
      OpenStore{0, std::vector<std::string>(65537)},
      with<StartRound>([](StartRound& start) { start.round.world_size = 0; }),
      with<StartRound>([](StartRound& start) { start.round.first_rank = -1; }),
      with<StartRound>([](StartRound& start) { start.round.restarts = -1; }),
      with<StartRound>([](StartRound& start) { start.round.group_rank = -1; }),
      with<StartRound>([](StartRound& start) { start.round.group_world_size = 0; }),
      with<StartRound>([](StartRound& start) { start.round.first_role_rank = -1; }),
      with<StartRound>([](StartRound& start) { start.round.role_world_size = 0; }),
      StopRound{0, 0, {}, ""},
      PassSignal{-9},
      EndJob{256, ""},
      EndJob{-1, ""},
      Beat{1, 1, -1, false},
      Echo{1, 1, std::numeric_limits<int64_t>::max(), true},
      Chunk{Chunk::kEnd + 1, ""},
  };
  for (size_t i = 0; i < wrong.size(); ++i) {
    auto read = decode(encode(wrong[i]));
    ASSERT_FALSE(read) << "the one at " << i;
    EXPECT_NE(read.error().text().find("cut short or out of range"), std::string::npos);
  }
  Message widest = with<Join>([](Join& join) {
    join.workers = 65536;
    join.addresses.resize(65536);
  });
  for (const Message& message : {widest, Message(StopRequest{1}), Message(EndJob{0, ""})})
    EXPECT_TRUE(decode(encode(message)));
}

TEST(Protocol, ACountThatTheRestCannotHoldCostsNothing) {
  ByteWriter writer;
  writer.u8(static_cast<uint8_t>(Message(RoundStarted{}).index()));
  writer.u32(0);
  writer.u32(0xffffffff);
  EXPECT_FALSE(decode(writer.bytes()));
}

TEST(Protocol, ADurationWithoutEndStaysOneThatCanBeAdded) {
  auto read = decode(encode(StopRound{0, 15, Duration::max(), ""}));
  ASSERT_TRUE(read);
  Duration grace = std::get<StopRound>(*read).grace;
  EXPECT_GT(grace, std::chrono::hours(24 * 365));
  EXPECT_GT(Clock::now() + grace, Clock::now());
}

}  // namespace
}  // namespace muster::rendezvous
