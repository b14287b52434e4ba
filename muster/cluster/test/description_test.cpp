#include "muster/cluster/description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/version.h"

namespace muster::cluster {
namespace {

using ::testing::HasSubstr;
using State = GreetingReader::State;

Description example() {
  return {.muster_version = "0.1.0",
          .token = "c0ffee",
          .endpoints = {"10.0.0.1:4711", "[fd00::1]:4711"},
          .host = "n2",
          .position = 1,
          .workers = 4,
          .request = std::string("a\0b", 3),
          .run_id = "the-job",
          .environment = {{"PATH", "/bin"}, {"EMPTY", ""}},
          .script = "print(1)",
          .directory = "/home/me",
          .columns = {120, 80}};
}

TEST(Description, ComesBackAsItWas) {
  for (const Description& given : {Description{}, example()}) {
    std::string bytes = encode(given);
    auto size = description_size(std::string_view(bytes).substr(0, kDescriptionHead));
    ASSERT_TRUE(size.ok());
    EXPECT_EQ(*size, bytes.size());
    auto read = decode_description(bytes);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(*read, given);
  }
}

TEST(Description, EveryCutIsAnError) {
  std::string bytes = encode(example());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_description(std::string_view(bytes).substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(decode_description(bytes + "x").ok());
}

TEST(Description, OtherVersionsAreNamed) {
  std::string bytes = encode(example());
  bytes[8] = 9;
  auto size = description_size(bytes);
  ASSERT_FALSE(size.ok());
  EXPECT_THAT(size.error().message, HasSubstr("is of version 9"));
  EXPECT_THAT(size.error().message, HasSubstr("reads version 4"));
}

TEST(Description, WhatIsNoneOrTooLong) {
  auto typed = description_size("hello, is anybody there?");
  ASSERT_FALSE(typed.ok());
  EXPECT_THAT(typed.error().message, HasSubstr("not a description"));
  EXPECT_FALSE(description_size("").ok());
  std::string bytes = encode(example());
  bytes[15] = 1;  // 16 MiB more
  auto size = description_size(bytes);
  ASSERT_FALSE(size.ok());
  EXPECT_THAT(size.error().message, HasSubstr("more than it may"));
}

TEST(Greeting, FoundHoweverItIsCut) {
  EXPECT_EQ(agent_greeting(), "muster-agent " + std::string(version()) + " 4\n");
  std::string stream = "Welcome to n1!\nmuster-agents\n" + agent_greeting() + "anything";
  GreetingReader whole;
  EXPECT_EQ(whole.add(stream), State::kGood);
  GreetingReader pieces;
  size_t end = stream.size() - 9;
  for (size_t i = 0; i < end; ++i) ASSERT_EQ(pieces.add(stream.substr(i, 1)), State::kWaiting) << i;
  EXPECT_EQ(pieces.add("\n"), State::kGood);
}

TEST(Greeting, AnotherVersionIsToldApart) {
  GreetingReader reader;
  EXPECT_EQ(reader.add("muster-agent 7.0 3 more\n"), State::kOther);
  EXPECT_EQ(reader.other(), "7.0");
  EXPECT_EQ(reader.add(agent_greeting()), State::kOther);
  GreetingReader protocol;
  EXPECT_EQ(protocol.add("muster-agent " + std::string(version()) + " 1\n"), State::kOther);
}

TEST(Greeting, EndlessChatterIsNone) {
  GreetingReader lines, line;
  State state = State::kWaiting;
  for (int i = 0; i < 10000 && state == State::kWaiting; ++i) state = lines.add("all is well\n");
  EXPECT_EQ(state, State::kNone);
  EXPECT_EQ(line.add(std::string(1 << 20, 'x')), State::kNone);
}

}  // namespace
}  // namespace muster::cluster
