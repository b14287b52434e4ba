#include "muster/output/traceback.h"

#include <gtest/gtest.h>

namespace muster::output {
namespace {

TEST(Traceback, ALineIsReadWithoutItsRank) {
  EXPECT_EQ(bare_line("[rank3]: ValueError: x\r"), "ValueError: x");
  EXPECT_EQ(bare_line("[rank12]:[W1115 file.cpp:12] x"), "[W1115 file.cpp:12] x");
  EXPECT_EQ(bare_line("[rank0]:   File \"a.py\""), "  File \"a.py\"");
  for (const char* other : {"", "[rank", "[rank]: x", "[rank3", "[rank3] x", "[rank3x]: y", " [rank3]: x"})
    EXPECT_EQ(bare_line(other), other);
}

TEST(Traceback, BeginsWithAHeader) {
  EXPECT_TRUE(is_traceback("Traceback (most recent call last):"));
  EXPECT_FALSE(is_traceback("  Traceback (most recent call last):"));
  EXPECT_FALSE(is_traceback("Traceback"));
  EXPECT_TRUE(is_group_traceback("  + Exception Group Traceback (most recent call last):"));
  EXPECT_FALSE(is_group_traceback("Traceback (most recent call last):"));
}

TEST(Traceback, ItsFramesAreIndentedAndItsExceptionIsNot) {
  for (const char* line : {"  File \"a.py\", line 1, in <module>", "\tx", ""}) EXPECT_TRUE(is_frame_line(line)) << line;
  EXPECT_FALSE(is_frame_line("ValueError: x"));
}

TEST(Traceback, MayBelongToTheOneBefore) {
  EXPECT_TRUE(is_chain_line("During handling of the above exception, another exception occurred:"));
  EXPECT_TRUE(is_chain_line("The above exception was the direct cause of the following exception: "));
  EXPECT_FALSE(is_chain_line("During handling"));
  EXPECT_FALSE(is_chain_line(""));
}

}  // namespace
}  // namespace muster::output
