#include "muster/base/bytes.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Bytes, WhatIsWrittenIsRead) {
  ByteWriter writer;
  writer.u8(7);
  writer.u32(1u << 31);
  writer.i64(-5);
  writer.boolean(true);
  writer.text(std::string_view("a\0b", 3));
  std::string message = std::move(writer).take();
  ByteReader reader(message);
  EXPECT_EQ(reader.u8(), 7);
  EXPECT_EQ(reader.u32(), 1u << 31);
  EXPECT_EQ(reader.i64(), -5);
  EXPECT_TRUE(reader.boolean());
  EXPECT_EQ(reader.text(), std::string("a\0b", 3));
  EXPECT_TRUE(reader.done());
}

TEST(Bytes, EveryPrefixOfAMessageIsAnError) {
  ByteWriter writer;
  writer.u64(1);
  writer.text("four");
  for (size_t size = 0; size < writer.bytes().size(); ++size) {
    ByteReader reader(std::string_view(writer.bytes()).substr(0, size));
    reader.u64();
    EXPECT_EQ(reader.text(), "") << size;
    EXPECT_FALSE(reader.ok()) << size;
  }
}

TEST(Bytes, ACountThatTheMessageCannotHold) {
  ByteWriter writer;
  writer.u32(3);
  writer.u64(0);
  EXPECT_EQ(ByteReader(writer.bytes()).count(2), 3u);
  ByteReader reader(writer.bytes());
  EXPECT_EQ(reader.count(4), 0u);
  EXPECT_FALSE(reader.ok());
}

TEST(Bytes, ABooleanIsZeroOrOne) {
  ByteReader reader("\x02");
  reader.boolean();
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace muster
