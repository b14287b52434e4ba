#include "muster/store/wire.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "muster/store/test/bytes.h"

namespace muster::store {
namespace {

using Status = Parser::Status;
using testing::ElementsAre;
using testing::IsEmpty;

struct Seen {
  Op op;
  std::string key;
  std::string value;
  std::string desired;
  int64_t number = 0;
  std::vector<std::string> list;
};

Seen copy(const Request& request) {
  Seen seen{
      request.op, std::string(request.key), std::string(request.value), std::string(request.desired), request.number,
      {}};
  for (std::string_view item : request.list) seen.list.emplace_back(item);
  return seen;
}

// Parses everything; the stream must end at a request's end.
std::vector<Seen> parse(Parser& parser, std::string_view stream) {
  std::vector<Seen> all;
  while (!stream.empty()) {
    Request request;
    Status status = parser.next(stream, request);
    if (status != Status::kRequest) {
      ADD_FAILURE() << "status " << static_cast<int>(status) << " before the end";
      return all;
    }
    all.push_back(copy(request));
    stream.remove_prefix(parser.consumed());
  }
  return all;
}

Parser modern() {
  Parser parser;
  parse(parser, bytes("00 CE F7 85 3C"));
  EXPECT_EQ(parser.dialect(), Dialect::kModern);
  return parser;
}

Seen one(Parser parser, std::string_view stream) {
  auto all = parse(parser, stream);
  EXPECT_EQ(all.size(), 1U);
  return all.empty() ? Seen{} : all[0];
}

Status status_of(Parser& parser, std::string_view stream) {
  Request request;
  return parser.next(stream, request);
}

TEST(Wire, ModernOpening) {
  Parser parser;
  auto seen = parse(parser, bytes("00 CE F7 85 3C 0D 34 12 00 00 04 05.. 'init/' 01.."));
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].op, Op::kValidate);
  EXPECT_EQ(seen[1].op, Op::kPing);
  EXPECT_EQ(seen[1].number, 4660);
  EXPECT_EQ(seen[2].op, Op::kAdd);
  EXPECT_EQ(seen[2].key, "init/");
  EXPECT_EQ(seen[2].number, 1);
}

TEST(Wire, ModernRequests) {
  Seen set = one(modern(), bytes("01 02.. 2F 6B 01.. 76"));
  EXPECT_EQ(set.op, Op::kSet);
  EXPECT_EQ(set.key, "/k");
  EXPECT_EQ(set.value, "v");

  Seen wait = one(modern(), bytes("06 01.. 02.. 2F 6B"));
  EXPECT_EQ(wait.op, Op::kWait);
  EXPECT_THAT(wait.list, ElementsAre("/k"));
  EXPECT_EQ(one(modern(), bytes("03 02.. 2F 6B")).op, Op::kGet);

  Seen add = one(modern(), bytes("04 02.. 2F 6E FE FF FF FF FF FF FF FF"));
  EXPECT_EQ(add.op, Op::kAdd);
  EXPECT_EQ(add.number, -2);

  Seen compare = one(modern(), bytes("02 03.. 2F 63 73 00.. 02.. 64 31"));
  EXPECT_EQ(compare.op, Op::kCompareSet);
  EXPECT_EQ(compare.key, "/cs");
  EXPECT_EQ(compare.value, "");
  EXPECT_EQ(compare.desired, "d1");

  EXPECT_THAT(one(modern(), bytes("06 02.. 02.. 2F 6B 03.. 2F 7A 7A")).list, ElementsAre("/k", "/zz"));
  EXPECT_EQ(one(modern(), bytes("0C")).op, Op::kCancelWait);

  Seen get = one(modern(), bytes("0A 02.. 03.. '/m2' 03.. '/m1'"));
  EXPECT_EQ(get.op, Op::kMultiGet);
  EXPECT_THAT(get.list, ElementsAre("/m2", "/m1"));

  Seen multi_set = one(modern(), bytes("0B 02.. 02.. '/a' 01.. '1' 02.. '/b' 00.."));
  EXPECT_EQ(multi_set.op, Op::kMultiSet);
  EXPECT_THAT(multi_set.list, ElementsAre("/a", "1", "/b", ""));

  Seen push = one(modern(), bytes("0E 02.. 2F 71 05.. 69 74 65 6D 31"));
  EXPECT_EQ(push.op, Op::kQueuePush);
  EXPECT_EQ(push.key, "/q");
  EXPECT_EQ(push.value, "item1");
  EXPECT_EQ(one(modern(), bytes("0F 02.. 2F 71")).op, Op::kQueuePop);
  EXPECT_EQ(one(modern(), bytes("10 02.. 2F 71")).op, Op::kQueueLen);

  Seen barrier = one(modern(), bytes("12 03.. 2F 62 31 01.."));
  EXPECT_EQ(barrier.op, Op::kBarrier);
  EXPECT_EQ(barrier.key, "/b1");
  EXPECT_EQ(barrier.number, 1);

  EXPECT_EQ(one(modern(), bytes("05 00..")).op, Op::kCheck);
  EXPECT_EQ(one(modern(), bytes("07")).op, Op::kNumKeys);
  EXPECT_EQ(one(modern(), bytes("08 02.. '/k'")).op, Op::kDeleteKey);
  EXPECT_EQ(one(modern(), bytes("09 02.. '/k' 01.. 'x'")).op, Op::kAppend);
  EXPECT_EQ(one(modern(), bytes("11")).op, Op::kListKeys);
}

TEST(Wire, V1_13Requests) {
  Parser parser;
  auto seen = parse(parser, bytes("03 05 00 00 00 00 00 00 00 69 6E 69 74 2F 01 00 00 00 00 00 00 00"
                                  "00 02.. 2F 6B 01.. 76"
                                  "05 01.. 02.. 2F 6B"
                                  "02 02.. 2F 6B"
                                  "06"
                                  "01 02.. '/c' 00.. 01.. 'd'"
                                  "04 01.. 02.. '/k'"));
  ASSERT_EQ(seen.size(), 7U);
  EXPECT_EQ(seen[0].op, Op::kAdd);
  EXPECT_EQ(seen[0].key, "init/");
  EXPECT_EQ(seen[1].op, Op::kSet);
  EXPECT_EQ(seen[2].op, Op::kWait);
  EXPECT_EQ(seen[3].op, Op::kGet);
  EXPECT_EQ(seen[4].op, Op::kNumKeys);
  EXPECT_EQ(seen[5].op, Op::kCompareSet);
  EXPECT_EQ(seen[6].op, Op::kCheck);
  EXPECT_EQ(parser.dialect(), Dialect::kLegacy) << "nothing so far tells 1.13 and 2.1 apart";

  std::string remove = bytes("08 02.. 2F 6B");
  EXPECT_EQ(status_of(parser, remove), Status::kAmbiguous);
  parser.assume(Dialect::kTorch113);
  EXPECT_EQ(one(parser, remove).op, Op::kDeleteKey);
  EXPECT_EQ(one(parser, bytes("07 02.. '/w'")).op, Op::kWatchKey);
}

TEST(Wire, V2_1Requests) {
  Parser parser(Dialect::kTorch21);
  auto seen = parse(parser, bytes("07 02.. '/k'"
                                  "08 02.. '/k' 01.. 'x'"
                                  "09 01.. 02.. '/k'"
                                  "0A 01.. 02.. '/k' 01.. 'x'"
                                  "0B"));
  ASSERT_EQ(seen.size(), 5U);
  EXPECT_EQ(seen[0].op, Op::kDeleteKey);
  EXPECT_EQ(seen[1].op, Op::kAppend);
  EXPECT_EQ(seen[2].op, Op::kMultiGet);
  EXPECT_EQ(seen[3].op, Op::kMultiSet);
  EXPECT_EQ(seen[4].op, Op::kCancelWait);
}

TEST(Wire, WhatProvesV2_1) {
  for (std::string_view proof : {"09 00..", "0A 00..", "0B", "02 01.. 'k' 07 01.. 'k'", "08 01.. 'k' 00.."}) {
    Parser parser;
    parse(parser, bytes(proof));
    EXPECT_EQ(parser.dialect(), Dialect::kTorch21) << proof;
  }
}

TEST(Wire, WhatStaysAmbiguous) {
  Parser first;
  EXPECT_EQ(status_of(first, bytes("07 02.. '/k'")), Status::kAmbiguous);
  first.assume(Dialect::kTorch21);
  EXPECT_EQ(one(first, bytes("07 02.. '/k'")).op, Op::kDeleteKey);

  Parser cut;
  EXPECT_EQ(status_of(cut, bytes("08 02.. '/'")), Status::kNeedMore);
  EXPECT_EQ(status_of(cut, bytes("08 02.. '/k'")), Status::kAmbiguous);
  EXPECT_EQ(one(cut, bytes("08 02.. '/k' 01.. 'x'")).op, Op::kAppend) << "more bytes settle it";
}

TEST(Wire, CodeZeroIsModernOnlyWithTheMagic) {
  Parser parser;
  EXPECT_EQ(status_of(parser, bytes("00")), Status::kNeedMore);
  EXPECT_EQ(status_of(parser, bytes("00 CE F7 85")), Status::kNeedMore);
  EXPECT_EQ(parser.dialect(), Dialect::kUnknown);
  EXPECT_EQ(status_of(parser, bytes("00 CE F7 85 3D 00 00 00 00")), Status::kBad);
  EXPECT_EQ(describe(parser.fault()), "key of 1032189902 bytes, the limit is 8192");

  Parser legacy;
  EXPECT_EQ(status_of(legacy, bytes("00 CE")), Status::kNeedMore);
  std::string set = bytes("00 CE 00 00 00 00 00 00 00");  // a key of 206 bytes begins like the magic
  set += std::string(206, 'k') + bytes("00..");
  EXPECT_EQ(one(legacy, set).key, std::string(206, 'k'));
}

TEST(Wire, ByteByByte) {
  std::string stream = bytes(
      "00 CE F7 85 3C 0D 34 12 00 00 01 02.. '/k' 01.. 'v' 0B 02.. 02.. '/a' 01.. '1' 02.. '/b' 00.. 06 00.. 07"
      "02 01.. 'c' 01.. 'x' 03.. 'new' 12 01.. 'b' 02.. 0C");
  Parser parser;
  std::string buffer;
  std::vector<Op> ops;
  for (char byte : stream) {
    buffer += byte;
    Request request;
    bool could = buffer.size() >= parser.needed();
    Status status = parser.next(buffer, request);
    if (status == Status::kNeedMore) {
      EXPECT_GT(parser.needed(), buffer.size());
      continue;
    }
    ASSERT_EQ(status, Status::kRequest);
    EXPECT_TRUE(could) << "needed() asked for too much";
    EXPECT_EQ(parser.consumed(), buffer.size());
    ops.push_back(request.op);
    if (request.op == Op::kMultiSet) {
      EXPECT_THAT(copy(request).list, ElementsAre("/a", "1", "/b", ""));
    } else if (request.op == Op::kCompareSet) {
      EXPECT_EQ(request.desired, "new");
    }
    buffer.clear();
  }
  EXPECT_THAT(buffer, IsEmpty());
  EXPECT_THAT(ops, ElementsAre(Op::kValidate, Op::kPing, Op::kSet, Op::kMultiSet, Op::kWait, Op::kNumKeys,
                               Op::kCompareSet, Op::kBarrier, Op::kCancelWait));
}

std::string code(Op op) {
  std::string out;
  put_code(out, Dialect::kModern, op);
  return out;
}

TEST(Wire, LimitsAreJudgedByTheStatedLength) {
  struct Case {
    std::string stream;
    std::string allowed;  // the same with the largest length that is allowed
    std::string reason;
  };
  auto stated = [](std::string front, uint64_t length) {
    put_u64(front, length);
    return front;
  };
  std::string key = code(Op::kSet) + bytes("01.. 'k'");
  for (const Case& c : std::vector<Case>{
           {stated(code(Op::kGet), 8193), stated(code(Op::kGet), 8192), "key of 8193 bytes, the limit is 8192"},
           {stated(key, 8388609), stated(key, 8388608), "value of 8388609 bytes, the limit is 8388608"},
           {stated(code(Op::kWait), 131073), stated(code(Op::kWait), 131072),
            "list of 131073 keys, the limit is 131072"},
           {stated(code(Op::kMultiSet), UINT64_MAX), stated(code(Op::kMultiSet), 131072),
            "list of 18446744073709551615 keys, the limit is 131072"},
           {stated(code(Op::kMultiGet) + bytes("01.."), UINT64_MAX), stated(code(Op::kMultiGet) + bytes("01.."), 8192),
            "key of 18446744073709551615 bytes, the limit is 8192"},
       }) {
    Parser parser = modern();
    EXPECT_EQ(status_of(parser, c.stream), Status::kBad);
    EXPECT_EQ(describe(parser.fault()), c.reason);
    Parser within = modern();
    EXPECT_EQ(status_of(within, c.allowed), Status::kNeedMore) << c.reason;
  }
}

TEST(Wire, AListIsLimitedAsAWhole) {
  // Pairs of a key of one byte and the largest value.
  std::string stream = code(Op::kMultiSet);
  put_u64(stream, 1000);
  Parser parser = modern();
  size_t pairs = 0;
  for (; status_of(parser, stream) == Status::kNeedMore && pairs < 1000; ++pairs) {
    put_string(stream, "k");
    put_u64(stream, Limits::kValue);
    if (status_of(parser, stream) != Status::kNeedMore) break;
    stream.append(Limits::kValue, 'x');
  }
  EXPECT_EQ(pairs, 7u) << "of 8 MiB and some bytes each, in 64 MiB";
  EXPECT_LT(stream.size(), Limits::kRequest) << "refused before its bytes have come";
  EXPECT_EQ(describe(parser.fault()),
            fmt::format("request of {} bytes or more, the limit is 67108864", stream.size() + Limits::kValue));
}

TEST(Wire, WhatIsNoQuery) {
  Parser http;
  EXPECT_EQ(status_of(http, "GET / HTTP/1.1\r\n"), Status::kBad);
  EXPECT_EQ(describe(http.fault()), "its first byte 0x47 is not a query code");

  Parser unvalidated;  // PING of a modern client that forgot to VALIDATE
  EXPECT_EQ(status_of(unvalidated, bytes("0D 34 12 00 00")), Status::kBad);

  Parser beyond = modern();
  EXPECT_EQ(status_of(beyond, bytes("13")), Status::kBad);
  EXPECT_EQ(describe(beyond.fault()), "its byte 0x13 is not a query code");

  Parser twice = modern();
  EXPECT_EQ(status_of(twice, bytes("00 CE F7 85 3C")), Status::kBad);
  EXPECT_EQ(describe(twice.fault()), "it sent VALIDATE a second time");

  Parser old(Dialect::kTorch113);
  EXPECT_EQ(status_of(old, bytes("09 00..")), Status::kBad);
}

TEST(Wire, EveryCodeOfEveryDialectGoesBackAndForth) {
  struct Expected {
    Dialect dialect;
    size_t codes;
  };
  for (Expected expected : {Expected{Dialect::kTorch113, 9}, {Dialect::kTorch21, 12}, {Dialect::kModern, 19}}) {
    size_t codes = 0;
    for (int code = 0; code < 256; ++code) {
      auto op = op_of(expected.dialect, static_cast<uint8_t>(code));
      if (!op) continue;
      ++codes;
      EXPECT_EQ(code_of(expected.dialect, *op), code) << name(*op);
    }
    EXPECT_EQ(codes, expected.codes);
  }
  EXPECT_EQ(code_of(Dialect::kTorch113, Op::kBarrier), std::nullopt);
}

TEST(Wire, Encoders) {
  std::string out;
  put_validate(out);
  EXPECT_EQ(out, bytes("00 CE F7 85 3C"));
  out.clear();
  put_code(out, Dialect::kModern, Op::kAdd);
  put_string(out, "/n");
  put_i64(out, -2);
  EXPECT_EQ(out, bytes("04 02.. 2F 6E FE FF FF FF FF FF FF FF"));
}

}  // namespace
}  // namespace muster::store
