#include "muster/store/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <thread>

#include "muster/net/socket.h"
#include "muster/net/test/connection.h"
#include "muster/store/test/bytes.h"
#include "muster/store/test/server_thread.h"
#include "muster/store/wire.h"

namespace muster::store {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// A client that sends and expects bytes. Whatever it waits for must come within ten seconds.
class Raw {
 public:
  explicit Raw(uint16_t port) {
    auto fd = net::connect_tcp("127.0.0.1", port, Deadline::in(seconds(10)));
    MUSTER_CHECK(fd.ok() && set_nonblocking(fd->get(), false).ok());
    fd_ = *std::move(fd);
    timeval limit{10, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }

  Raw& send(std::string_view data) {
    EXPECT_TRUE(write_all(fd_.get(), data.data(), data.size()).ok());
    return *this;
  }
  Raw& slowly(std::string_view data) {
    for (char byte : data) send({&byte, 1});
    return *this;
  }
  std::string receive(size_t size) {
    std::string data(size, '\0');
    size_t have = 0;
    while (have < size) {
      ssize_t got = ::recv(fd_.get(), data.data() + have, size - have, 0);
      if (got <= 0) break;
      have += static_cast<size_t>(got);
    }
    data.resize(have);
    return data;
  }
  // Sends the request, receives as much as is expected, and compares.
  void expect(std::string_view request, std::string_view reply) {
    send(bytes(request));
    EXPECT_EQ(receive(bytes(reply).size()), bytes(reply)) << request;
  }
  // Nothing but the end of the connection is to come.
  bool closed() {
    char byte;
    ssize_t got = ::recv(fd_.get(), &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }
  void close() { fd_.reset(); }
  void shutdown_sending() { ::shutdown(fd_.get(), SHUT_WR); }
  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
};

class Modern : public Raw {
 public:
  explicit Modern(uint16_t port) : Raw(port) { send(bytes("00 CE F7 85 3C")); }
  // Everything sent so far has been executed, and no reply but this one is pending.
  void settle() { expect("0D 01 02 03 04", "01 02 03 04"); }
};

TEST(StoreServer, TheBasicQueries) {
  ServerThread server;
  Modern client(server.port());
  client.expect("0D 34 12 00 00", "34 12 00 00");
  client.expect("04 05.. 'init/' 01..", "01..");
  client.send(bytes("01 02.. '/k' 01.. 'v'"));
  client.expect("06 01.. 02.. '/k'", "00");
  client.expect("03 02.. '/k'", "01.. 'v'");
  client.expect("04 02.. '/n' FE FF FF FF FF FF FF FF", "FE FF FF FF FF FF FF FF");
  client.expect("05 02.. 02.. '/k' 02.. '/n'", "00");
  client.expect("05 02.. 02.. '/k' 02.. '/z'", "01");
  client.expect("07", "03..");
  client.expect("03 02.. '/z'", "00..");
  client.expect("08 02.. '/k'", "01..");
  client.expect("08 02.. '/k'", "00..");
  client.send(bytes("09 02.. '/a' 01.. 'x' 09 02.. '/a' 02.. 'yz'"));
  client.expect("03 02.. '/a'", "03.. 'xyz'");
  client.send(bytes("0B 02.. 02.. '/p' 01.. '1' 02.. '/q' 01.. '2'"));
  client.expect("0A 03.. 02.. '/q' 02.. '/-' 02.. '/p'", "01.. '2' 00.. 01.. '1'");
}

TEST(StoreServer, ListKeysDoesNotShowQueues) {
  ServerThread server;
  Modern client(server.port());
  client.send(bytes("01 02.. '/k' 00.. 0E 02.. '/q' 01.. 'i'"));
  client.expect("11", "01.. 02.. '/k'");
  client.expect("07", "01..");
}

TEST(StoreServer, CompareSet) {
  ServerThread server;
  Modern client(server.port());
  client.expect("02 02.. '/c' 01.. 'x' 01.. 'y'", "01.. 'x'");  // absent, something expected: echoed, not stored
  client.expect("05 01.. 02.. '/c'", "01");
  client.expect("02 02.. '/c' 00.. 02.. 'd1'", "02.. 'd1'");
  client.expect("02 02.. '/c' 02.. 'd0' 02.. 'd2'", "02.. 'd1'");
  client.expect("02 02.. '/c' 02.. 'd1' 00..", "00..");
  client.expect("02 02.. '/c' 00.. 02.. 'd3'", "02.. 'd3'");  // an empty value equals an empty expectation
}

TEST(StoreServer, CompareSetWakesWaitersOnlyWhenItStores) {
  ServerThread server;
  Modern waiter(server.port());
  Modern other(server.port());
  waiter.send(bytes("06 01.. 02.. '/c'"));
  waiter.settle();
  other.expect("02 02.. '/c' 01.. 'x' 01.. 'y'", "01.. 'x'");
  waiter.settle();  // no byte came before this answer
  other.expect("02 02.. '/c' 00.. 01.. 'y'", "01.. 'y'");
  EXPECT_EQ(waiter.receive(1), bytes("00"));
}

TEST(StoreServer, AddReadsWhatStrtollReads) {
  ServerThread server;
  struct Case {
    std::string_view stored;  // in the protocol
    std::string_view delta;
    std::string_view sum;
  };
  for (Case c : {Case{"05.. ' 12ab'", "01..", "0D.."},
                 {"02.. '+5'", "01..", "06.."},
                 {"02.. '-5'", "01..", "FC FF FF FF FF FF FF FF"},
                 {"04.. '0x10'", "01..", "01.."},
                 {"13.. '9223372036854775807'", "01..", "00 00 00 00 00 00 00 80"}}) {
    Modern client(server.port());
    client.send(bytes("01 02.. '/n'") + bytes(c.stored));
    client.expect("04 02.. '/n' " + std::string(c.delta), c.sum);
  }
  Modern client(server.port());
  client.expect("03 02.. '/n'", "14.. '-9223372036854775808'");
}

TEST(StoreServer, AddToWhatIsNoNumberClosesAndChangesNothing) {
  ServerThread server;
  for (std::string_view stored : {"00..", "03.. 'abc'", "02.. '+-'", "13.. '9223372036854775808'", "01.. '-'"}) {
    Modern client(server.port());
    client.send(bytes("01 02.. '/n'") + bytes(stored) + bytes("04 02.. '/n' 01.."));
    EXPECT_TRUE(client.closed()) << stored;
    Modern other(server.port());
    other.expect("03 02.. '/n'", stored);
  }
  EXPECT_THAT(server.lines().at(0),
              AllOf(HasSubstr("store: closed 127.0.0.1:"), HasSubstr("ADD on key '/n', whose value is not a number")));
  EXPECT_EQ(server.lines().size(), 5U);
}

TEST(StoreServer, WaitIsReleasedWhenTheLastKeyComes) {
  ServerThread server;
  Modern waiter(server.port());
  Modern other(server.port());
  other.send(bytes("01 02.. '/a' 00..")).send(bytes("05 01.. 02.. '/a'"));
  EXPECT_EQ(other.receive(1), bytes("00"));
  waiter.send(bytes("06 04.. 02.. '/a' 02.. '/b' 02.. '/c' 02.. '/b'"));
  waiter.settle();
  other.send(bytes("01 02.. '/b' 00.."));
  other.settle();
  waiter.settle();
  other.expect("04 02.. '/c' 01..", "01..");
  EXPECT_EQ(waiter.receive(1), bytes("00"));
  waiter.settle();
  waiter.expect("06 00..", "00");  // nothing to wait for
}

TEST(StoreServer, EverythingThatStoresReleases) {
  ServerThread server;
  for (std::string_view store :
       {"01 02.. '/k' 00..", "02 02.. '/k' 00.. 01.. 'v'", "04 02.. '/k' 01..", "09 02.. '/k' 01.. 'v'",
        "0B 01.. 02.. '/k' 00..", "0E 02.. '/k' 01.. 'v'", "12 02.. '/k' 01.."}) {
    Modern waiter(server.port());
    waiter.send(bytes("06 01.. 02.. '/k'"));
    waiter.settle();
    Modern other(server.port());
    other.send(bytes(store));
    EXPECT_EQ(waiter.receive(1), bytes("00")) << store;
    waiter.send(bytes("0F 02.. '/k' 08 02.. '/k'"));
    waiter.receive(16);
  }
}

TEST(StoreServer, AKeyThatCameAndWentStillCounts) {
  ServerThread server;
  Modern waiter(server.port());
  Modern other(server.port());
  waiter.send(bytes("06 02.. 02.. '/a' 02.. '/b'"));
  waiter.settle();
  other.send(bytes("01 02.. '/a' 00.. 08 02.. '/a' 01 02.. '/b' 00.."));
  EXPECT_EQ(waiter.receive(1), bytes("00"));
}

TEST(StoreServer, CancelWait) {
  ServerThread server;
  Modern waiter(server.port());
  Modern other(server.port());
  waiter.expect("0C", "01");  // nothing pending
  waiter.expect("06 02.. 02.. '/a' 02.. '/b' 0C", "01");
  other.send(bytes("01 02.. '/a' 00.. 01 02.. '/b' 00.."));
  other.settle();
  waiter.settle();  // no late answer
  // The answer had left when the cancellation came: the client reads both.
  waiter.expect("06 01.. 02.. '/a' 0C", "00 01");
  waiter.settle();
}

TEST(StoreServer, ASecondWaitTakesTheFirstOnesPlace) {
  ServerThread server;
  Modern waiter(server.port());
  Modern other(server.port());
  waiter.send(bytes("06 01.. 02.. '/a' 06 01.. 02.. '/b'"));
  waiter.settle();
  other.send(bytes("01 02.. '/a' 00.."));
  other.settle();
  waiter.settle();
  other.send(bytes("01 02.. '/b' 00.."));
  EXPECT_EQ(waiter.receive(1), bytes("00"));
}

TEST(StoreServer, Queues) {
  ServerThread server;
  Modern client(server.port());
  client.expect("0F 02.. '/q'", "00..");
  client.send(bytes("0E 02.. '/q' 02.. 'i1' 0E 02.. '/q' 00.."));
  client.expect("10 02.. '/q'", "02..");
  client.expect("05 01.. 02.. '/q'", "00");
  client.expect("0F 02.. '/q'", "02.. 02.. 'i1'");
  client.expect("0F 02.. '/q'", "01.. 00..");
  client.expect("10 02.. '/q'", "00..");
  client.expect("05 01.. 02.. '/q'", "01");
}

TEST(StoreServer, APushReleasesTheLongestWaiterAlone) {
  ServerThread server;
  Modern first(server.port());
  Modern second(server.port());
  Modern pusher(server.port());
  first.send(bytes("06 01.. 02.. '/q'"));
  first.settle();
  second.send(bytes("06 01.. 02.. '/q'"));
  second.settle();
  pusher.send(bytes("0E 02.. '/q' 01.. 'a'"));
  EXPECT_EQ(first.receive(1), bytes("00"));
  first.expect("0F 02.. '/q'", "01.. 01.. 'a'");
  second.settle();
  // The one that was released waits for something else now: a push is no business of its.
  first.send(bytes("06 01.. 02.. '/x'"));
  first.settle();
  pusher.send(bytes("0E 02.. '/q' 01.. 'b'"));
  EXPECT_EQ(second.receive(1), bytes("00"));
  first.settle();
}

TEST(StoreServer, NobodyComesBetweenTheWaitAndThePopOfABlockingPop) {
  ServerThread server;
  Modern first(server.port());
  Modern second(server.port());
  Modern third(server.port());
  third.send(bytes("0E 02.. '/q' 01.. 'a'"));
  third.settle();
  first.expect("06 01.. 02.. '/q'", "00");
  second.send(bytes("06 01.. 02.. '/q'"));
  second.settle();                       // the only item is promised
  third.expect("0F 02.. '/q'", "00..");  // to all others
  third.expect("10 02.. '/q'", "01..");
  first.expect("0F 02.. '/q'", "01.. 01.. 'a'");
  third.send(bytes("0E 02.. '/q' 01.. 'b'"));
  EXPECT_EQ(second.receive(1), bytes("00"));
  second.expect("0F 02.. '/q'", "01.. 01.. 'b'");
}

TEST(StoreServer, AnItemWhoseTakerGaveUpGoesToTheNext) {
  ServerThread server;
  for (bool leaves : {false, true}) {
    Modern first(server.port());
    Modern second(server.port());
    Modern pusher(server.port());
    first.send(bytes("06 01.. 02.. '/q'"));
    first.settle();
    second.send(bytes("06 01.. 02.. '/q'"));
    second.settle();
    pusher.send(bytes("0E 02.. '/q' 01.. 'a'"));
    EXPECT_EQ(first.receive(1), bytes("00"));
    if (leaves)
      first.close();
    else
      first.expect("0C", "01");  // its time had run out at the same instant
    EXPECT_EQ(second.receive(1), bytes("00"));
    second.expect("0F 02.. '/q'", "01.. 01.. 'a'");
  }
}

TEST(StoreServer, Barrier) {
  ServerThread server;
  Modern first(server.port());
  Modern second(server.port());
  first.send(bytes("12 02.. '/b' 02.."));
  first.settle();
  second.expect("12 02.. '/b' 02..", "00");
  EXPECT_EQ(first.receive(1), bytes("00"));
  first.expect("12 02.. '/b' 02..", "00");  // never reset: later arrivals pass
  first.expect("03 02.. '/b'", "01.. '3'");
  first.expect("12 02.. '/z' 00..", "00");
  first.send(bytes("01 02.. '/x' 01.. 'x' 12 02.. '/x' 02.."));
  EXPECT_TRUE(first.closed());
}

TEST(StoreServer, ACancelledOrLostBarrierMemberStaysCounted) {
  ServerThread server;
  Modern first(server.port());
  first.expect("12 02.. '/b' 03.. 0C", "01");
  Modern second(server.port());
  second.send(bytes("12 02.. '/b' 03.."));
  second.settle();
  second.close();
  first.expect("12 02.. '/b' 03..", "00");
}

TEST(StoreServer, AHalfMessageStallsNobody) {
  ServerThread server;
  Modern half(server.port());
  half.settle();
  half.send(bytes("01 02.. '/k' 05.. 'va'"));
  Raw silent(server.port());
  Raw one_byte(server.port());
  one_byte.send(bytes("00"));
  Modern other(server.port());
  other.send(bytes("01 02.. '/o' 01.. 'v'"));
  other.expect("03 02.. '/o'", "01.. 'v'");
  other.expect("05 01.. 02.. '/k'", "01");
  half.send("lue");
  half.expect("03 02.. '/k'", "05.. 'value'");
}

TEST(StoreServer, ByteByByte) {
  ServerThread server;
  Raw client(server.port());
  client.slowly(bytes("00 CE F7 85 3C 0D 34 12 00 00"));
  EXPECT_EQ(client.receive(4), bytes("34 12 00 00"));
  client.slowly(bytes("0B 02.. 02.. '/a' 01.. '1' 02.. '/b' 01.. '2' 0A 02.. 02.. '/a' 02.. '/b'"));
  EXPECT_EQ(client.receive(18), bytes("01.. '1' 01.. '2'"));
}

TEST(StoreServer, ManyRequestsInOneSegment) {
  ServerThread server;
  Modern client(server.port());
  std::string requests;
  std::string replies;
  for (int i = 1; i <= 10000; ++i) {
    requests += bytes("04 02.. '/n' 01..");
    put_i64(replies, i);
  }
  client.send(requests);
  EXPECT_EQ(client.receive(replies.size()), replies);
}

TEST(StoreServer, ALargeValueComesBackWhole) {
  ServerThread server;
  Modern client(server.port());
  std::string value(Limits::kValue, '\0');
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 31 >> 7);
  std::string framed;
  put_string(framed, value);
  client.send(bytes("01 02.. '/v'") + framed + bytes("03 02.. '/v'"));
  EXPECT_EQ(client.receive(framed.size()), framed);
  client.settle();
  client.send(bytes("09 02.. '/v' 01.. 'x' 03 02.. '/v'"));  // APPEND may go beyond the limit
  EXPECT_EQ(client.receive(framed.size() + 1).back(), 'x');
}

TEST(StoreServer, LimitsCloseWithOneLine) {
  ServerThread server;
  Modern other(server.port());
  for (std::string_view message :
       {"03 01 20 00 00 00 00 00 00", "01 01.. 'k' 01 00 80 00 00 00 00 00", "06 01 00 02 00 00 00 00 00"}) {
    Modern client(server.port());
    client.send(bytes(message));
    EXPECT_TRUE(client.closed()) << message;
  }
  EXPECT_THAT(server.lines(), ElementsAre(HasSubstr("key of 8193 bytes, the limit is 8192"),
                                          HasSubstr("value of 8388609 bytes, the limit is 8388608"),
                                          HasSubstr("list of 131073 keys, the limit is 131072")));
  EXPECT_THAT(server.lines()[0], HasSubstr("store: closed 127.0.0.1:"));
  other.settle();
}

TEST(StoreServer, ALongRequestIsClosedBeforeItHasCome) {
  ServerThread server({.max_request = 100});
  Modern client(server.port());
  client.expect("0B 01.. 01.. 'k' 02.. 'vw' 0D 01 02 03 04", "01 02 03 04");  // MULTI_SET within it
  client.send(bytes("0B FF.. 01.. 'k' 50.."));
  EXPECT_TRUE(client.closed());
  EXPECT_THAT(server.lines(), ElementsAre(HasSubstr("request of 106 bytes or more, the limit is 100")));
}

TEST(StoreServer, OneAddressHasSoManyConnections) {
  ServerThread server({.max_connections_per_peer = 2});
  Modern first(server.port());
  Modern second(server.port());
  first.settle();
  second.settle();
  Raw third(server.port());
  EXPECT_TRUE(third.closed());
  EXPECT_THAT(server.lines(), ElementsAre(AllOf(HasSubstr("store: refused 127.0.0.1:"),
                                                HasSubstr("this address has 2 connections already"))));
  first.settle();
  second.shutdown_sending();
  EXPECT_TRUE(second.closed());
  Modern fourth(server.port());
  fourth.settle();
}

TEST(StoreServer, WhoDoesNotSpeakTheProtocolIsClosed) {
  ServerThread server;
  Raw http(server.port());
  http.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(http.closed());
  Raw unvalidated(server.port());
  unvalidated.send(bytes("0D 34 12 00 00"));
  EXPECT_TRUE(unvalidated.closed());
  Modern twice(server.port());
  twice.settle();
  twice.send(bytes("00 CE F7 85 3C"));
  EXPECT_TRUE(twice.closed());
  Modern unknown(server.port());
  unknown.send(bytes("13"));
  EXPECT_TRUE(unknown.closed());
  EXPECT_THAT(server.lines(),
              ElementsAre(HasSubstr("its first byte 0x47 is not a query code"),
                          HasSubstr("its first byte 0x0d is not a query code"),
                          HasSubstr("it sent VALIDATE a second time"), HasSubstr("its byte 0x13 is not a query code")));
}

TEST(StoreServer, ManyWhoDoNotSpeakItAreNotSaidOneByOne) {
  ServerThread server;
  for (int i = 0; i < 40; ++i) {
    Raw scanner(server.port());
    scanner.send("GET /");
    EXPECT_TRUE(scanner.closed());
  }
  EXPECT_GE(server.lines().size(), 8U);
  EXPECT_LT(server.lines().size(), 40U);
}

TEST(StoreServer, WhatCameBeforeABrokenMessageIsAnswered) {
  ServerThread server;
  Modern client(server.port());
  client.expect("04 02.. '/n' 01.. 04 02.. '/n' 01.. 13", "01.. 02..");
  EXPECT_TRUE(client.closed());
}

TEST(StoreServer, APeerThatClosedItsSendingSideGetsItsAnswers) {
  ServerThread server;
  Modern client(server.port());
  client.send(bytes("01 02.. '/k' 01.. 'v' 03 02.. '/k'"));
  client.shutdown_sending();
  EXPECT_EQ(client.receive(9), bytes("01.. 'v'"));
  EXPECT_TRUE(client.closed());
}

TEST(StoreServer, ASlowReaderHasToWaitAndIsThenServed) {
  ServerThread server({.pause_output_at = 64 << 10});
  Modern client(server.port());
  std::string framed;
  put_string(framed, std::string(1 << 20, 'x'));
  client.send(bytes("01 02.. '/v'") + framed);
  constexpr int kGets = 64;
  for (int i = 0; i < kGets; ++i) client.send(bytes("03 02.. '/v'"));
  Modern other(server.port());
  other.settle();
  for (int i = 0; i < kGets; ++i) ASSERT_EQ(client.receive(framed.size()), framed);
  client.settle();
}

// It is paused more than once, with requests on their way, and the replies keep their order.
TEST(StoreServer, ASlowReaderThatKeepsAskingMissesNothing) {
  ServerThread server({.pause_output_at = 64 << 10});
  Raw client(server.port());
  client.send(bytes("00 CE F7 85 3C"));
  constexpr uint32_t kPings = 2'000'000;
  std::thread asking([&] {
    std::string requests;
    for (uint32_t i = 0; i < kPings; ++i) {
      put_code(requests, Dialect::kModern, Op::kPing);
      put_u32(requests, i);
      if (requests.size() > 100'000 || i + 1 == kPings) {
        client.send(requests);
        requests.clear();
      }
    }
  });
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < kPings; i += 1000) {
    std::string replies = client.receive(4000);
    std::string expected;
    for (uint32_t j = i; j < i + 1000; ++j) put_u32(expected, j);
    if (replies != expected) ++wrong;
  }
  EXPECT_EQ(wrong, 0U);
  asking.join();
}

// A number that was used before is another connection: nothing of the old one reaches the new.
TEST(StoreServer, ConnectionsThatComeAndGo) {
  ServerThread server;
  for (int i = 0; i < 300; ++i) {
    Raw client(server.port());
    if (i % 3 == 0) client.send(bytes("FF"));                                // closed by the server
    if (i % 3 == 1) client.send(bytes("00 CE F7 85 3C 06 01.. 02.. '/w'"));  // leaves while it waits
    if (i % 3 == 2) client.send(bytes("00 CE F7 85 3C")).expect("0D 01 02 03 04", "01 02 03 04");
  }
}

TEST(StoreServer, TooLargeAReplyIsRefused) {
  ServerThread server({.max_output = 1 << 20});
  Modern client(server.port());
  std::string framed;
  put_string(framed, std::string(1 << 20, 'x'));
  client.send(bytes("01 02.. '/v'") + framed + bytes("0A 02.. 02.. '/v' 02.. '/v'"));
  EXPECT_TRUE(client.closed());
  EXPECT_THAT(server.lines(), ElementsAre(HasSubstr("of replies it has not read, the limit is 1048576")));
}

TEST(StoreServer, AWatcherThatDoesNotReadIsClosed) {
  ServerThread server({.max_output = 1 << 20});
  Raw client(server.port());
  client.expect("03 05.. 'init/' 01..", "01..");
  Raw watcher(server.port());
  watcher.expect("07 02.. '/w'", "03");
  std::string framed;
  put_string(framed, std::string(100 << 10, 'x'));
  // Far more than the sockets hold.
  for (int i = 0; i < 1000 && server.lines().empty(); ++i) {
    client.send(bytes("00 02.. '/w'") + framed);
    client.expect("06", "02..");
  }
  EXPECT_THAT(server.lines(), ElementsAre(HasSubstr("of replies it has not read, the limit is 1048576")));
}

// ---- clients from before 2.2

TEST(StoreServer, A1_13Client) {
  ServerThread server;
  Raw client(server.port());
  client.expect("03 05.. 'init/' 01..", "01..");
  Raw silent(server.port());
  client.send(bytes("00 02.. '/k' 01.. 'v'"));
  client.expect("05 01.. 02.. '/k'", "00");
  client.expect("02 02.. '/k'", "01.. 'v'");
  client.expect("06", "02..");
  client.expect("01 02.. '/k' 01.. 'v' 01.. 'w'", "01.. 'w'");
  client.expect("08 02.. '/k'", "01..");
  client.expect("08 02.. '/k'", "00..");
}

TEST(StoreServer, A1_13ClientWatchesKeys) {
  ServerThread server;
  Raw client(server.port());
  client.expect("03 05.. 'init/' 01..", "01..");
  Raw watcher(server.port());
  watcher.expect("07 02.. '/w'", "03");
  client.send(bytes("00 02.. '/w' 01.. '1'"));
  EXPECT_EQ(watcher.receive(28), bytes("01 02.. '/w' 00.. 01.. '1'"));
  client.expect("03 02.. '/w' 01..", "02..");
  EXPECT_EQ(watcher.receive(29), bytes("00 02.. '/w' 01.. '1' 01.. '2'"));
  client.expect("01 02.. '/w' 01.. '9' 01.. '3'", "01.. '2'");  // not stored: no event
  client.expect("08 02.. '/w'", "01..");
  EXPECT_EQ(watcher.receive(28), bytes("02 02.. '/w' 01.. '2' 00.."));
  watcher.expect("07 02.. '/x'", "03");
  watcher.close();
  client.send(bytes("00 02.. '/w' 01.. '1'"));
  client.expect("06", "02..");
}

TEST(StoreServer, A1_13WaitThatTimedOutIsNotAnsweredLater) {
  ServerThread server;
  Raw client(server.port());
  client.expect("05 01.. 02.. '/a' 03 02.. '/n' 01..", "01..");
  Raw other(server.port());
  other.send(bytes("00 02.. '/a' 00.."));
  other.expect("06", "02..");
  client.expect("06", "02..");
}

TEST(StoreServer, A2_1Client) {
  ServerThread server;
  Raw client(server.port());
  client.expect("07 02.. '/k'", "00..");  // alone from its host: nothing it could watch for
  client.send(bytes("08 02.. '/k' 01.. 'v'"));
  client.expect("09 01.. 02.. '/k'", "01.. 'v'");
  client.send(bytes("0A 01.. 02.. '/m' 01.. '1'"));
  client.expect("07 02.. '/m'", "01..");
  client.expect("05 01.. 02.. '/z' 0B", "01");
  Raw later(server.port());
  later.expect("03 05.. 'init/' 01..", "01..");
  later.expect("07 02.. '/k'", "01..");  // not its first request
}

TEST(StoreServer, A2_1AppendCutBehindItsKey) {
  ServerThread server;
  Raw client(server.port());
  client.slowly(bytes("08 02.. '/k' 01.. 'v'"));
  client.expect("02 02.. '/k'", "01.. 'v'");
}

// ---- the server's life

TEST(StoreServer, ThePortIsFreeAgainAtOnce) {
  net::EventLoop loop;
  Log log([](LogLevel, std::string_view) {});
  Server server(loop, log, {});
  ASSERT_TRUE(server.listen(0, true).ok());
  uint16_t port = server.port();
  for (int round = 0; round < 3; ++round) {
    Raw client(port);
    client.send(bytes("00 CE F7 85 3C 01 02.. '/k' 00.."));
    while (server.keys() == 0) loop.run_until(Deadline::in(std::chrono::milliseconds(1)));
    EXPECT_EQ(server.connections(), 1U);
    server.close();
    EXPECT_EQ(server.port(), 0);
    EXPECT_EQ(server.keys(), 0U);
    EXPECT_TRUE(client.closed());
    ASSERT_TRUE(server.listen(port, true).ok());
  }
}

TEST(StoreServer, OnlyWelcomePeers) {
  ServerThread server({.accept_peer = [](const net::Address&, const net::Address&) { return Admission::kStranger; }});
  Raw client(server.port());
  EXPECT_TRUE(client.closed());
  EXPECT_THAT(server.lines(), ElementsAre(HasSubstr("store: refused 127.0.0.1:")));
}

TEST(StoreServer, SaysNothingOfWhoHungUp) {
  ServerThread server({.accept_peer = [](const net::Address&, const net::Address&) { return Admission::kGone; }});
  Raw client(server.port());
  EXPECT_TRUE(client.closed());
  EXPECT_THAT(server.lines(), ElementsAre());
}

TEST(StoreServer, TakesNothingFromAConnectionThatWasReset) {
  auto [client, accepted, peer] = net::test::connect_to_ourselves();
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(::setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  client.reset();
  net::EventLoop loop;
  std::string said;
  Log log([&](LogLevel, std::string_view line) { said += line; });
  bool asked = false;
  Server server(loop, log, {.accept_peer = [&](const net::Address&, const net::Address&) {
                  asked = true;
                  return Admission::kWelcome;
                }});
  server.adopt(std::move(accepted), peer, bytes("00 CE F7 85 3C 01 02.. '/k' 00.."));
  EXPECT_EQ(server.keys(), 0U);
  EXPECT_EQ(said, "");
  EXPECT_FALSE(asked) << "nobody could tell whose it is";
}

TEST(StoreServer, TakesNothingFromAConnectionThatIsResetWhileItIsLookedAt) {
  auto [client, accepted, peer] = net::test::connect_to_ourselves();
  net::EventLoop loop;
  Log log([](LogLevel, std::string_view) {});
  Server server(loop, log, {.accept_peer = [&client = client](const net::Address&, const net::Address&) {
                  const linger at_once{.l_onoff = 1, .l_linger = 0};
                  EXPECT_EQ(::setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
                  client.reset();
                  return Admission::kWelcome;
                }});
  server.adopt(std::move(accepted), peer, bytes("00 CE F7 85 3C 01 02.. '/k' 00.."));
  EXPECT_EQ(server.keys(), 0U);
}

TEST(StoreServer, TakesOverAConnectionThatSomebodyElseAccepted) {
  auto listener = net::listen_tcp({.loopback_only = true});
  ASSERT_TRUE(listener.ok());
  Raw client(listener->port);
  net::Address peer;
  Result<Fd> accepted = Fd();
  while (accepted.ok() && !*accepted) accepted = net::accept_tcp(listener->fd.get(), &peer);
  ASSERT_TRUE(accepted.ok());
  net::EventLoop loop;
  Log log([](LogLevel, std::string_view) {});
  Server server(loop, log, {});
  server.adopt(*std::move(accepted), peer, bytes("00 CE F7 85"));
  client.send(bytes("3C 01 02.. '/k' 00.."));
  while (server.keys() == 0) loop.run_until(Deadline::in(std::chrono::milliseconds(1)));
  EXPECT_EQ(server.connections(), 1U);
}

}  // namespace
}  // namespace muster::store
