#include <gtest/gtest.h>

#include <random>

#include "muster/output/digest.h"

namespace muster::output {
namespace {

using std::chrono::seconds;

constexpr TimePoint kStart{};

// One line a second.
StderrDigest digest_of(std::initializer_list<std::string_view> lines) {
  DigestBuilder builder;
  TimePoint now = kStart;
  for (std::string_view line : lines) {
    builder.feed(std::string(line) + "\n", now);
    now += seconds(1);
  }
  return builder.digest();
}

TEST(Digest, NoErrorNoTime) {
  StderrDigest digest = digest_of({"epoch 1", "WARNING: slow", ""});
  EXPECT_FALSE(digest.first_error_time);
  EXPECT_EQ(digest.exception_line, "");
  EXPECT_EQ(digest.tail, "epoch 1\nWARNING: slow\n\n");
}

TEST(Digest, ATracebackBeginsWhereItsFirstLineArrived) {
  StderrDigest digest =
      digest_of({"epoch 1", "Traceback (most recent call last):", "  File \"x.py\", line 1, in <module>", "    f()",
                 "ValueError: bad batch", "cleaning up"});
  ASSERT_TRUE(digest.first_error_time);
  EXPECT_EQ(*digest.first_error_time, kStart + seconds(1));
  EXPECT_EQ(digest.exception_line, "ValueError: bad batch");
}

TEST(Digest, AChainOfExceptionsBeganWithTheFirst) {
  StderrDigest digest =
      digest_of({"Traceback (most recent call last):", "  File \"x.py\", line 1", "KeyError: 'a'", "",
                 "During handling of the above exception, another exception occurred:", "",
                 "Traceback (most recent call last):", "  File \"x.py\", line 3", "RuntimeError: no a"});
  EXPECT_EQ(digest.first_error_time, kStart);
  EXPECT_EQ(digest.exception_line, "RuntimeError: no a");
}

TEST(Digest, OfTwoUnrelatedErrorsTheLastCounts) {
  StderrDigest digest =
      digest_of({"Traceback (most recent call last):", "  File \"x.py\", line 1", "KeyError: 'a'", "going on",
                 "Traceback (most recent call last):", "  File \"x.py\", line 9", "OSError"});
  EXPECT_EQ(digest.first_error_time, kStart + seconds(4));
  EXPECT_EQ(digest.exception_line, "OSError");
}

TEST(Digest, AnErrorThatWasSurvivedIsForgotten) {
  DigestBuilder builder;
  builder.feed("Traceback (most recent call last):\n  File \"x.py\"\nKeyError: 'a'\n", kStart);
  for (int i = 0; i < 2 * DigestBuilder::kLinesAfter; ++i) builder.feed("step\n", kStart + seconds(9));
  EXPECT_FALSE(builder.digest().first_error_time);
}

TEST(Digest, PyTorchsRankPrefixIsSeenThrough) {
  StderrDigest digest =
      digest_of({"[rank3]: Traceback (most recent call last):", "[rank3]:   File \"x.py\", line 1", "[rank3]:     f()",
                 "[rank3]: ValueError: bad", "[rank3]:[W1115 10:00:00 x.cpp] warn"});
  EXPECT_EQ(digest.first_error_time, kStart);
  EXPECT_EQ(digest.exception_line, "ValueError: bad");
}

TEST(Digest, ExceptionGroups) {
  StderrDigest digest =
      digest_of({"  + Exception Group Traceback (most recent call last):", "  |   File \"x.py\", line 1",
                 "  | ExceptionGroup: two (2 sub-exceptions)", "  +-+---------------- 1 ----------------",
                 "    | ValueError: 1", "    +------------------------------------"});
  EXPECT_EQ(digest.first_error_time, kStart);
  EXPECT_EQ(digest.exception_line, "ExceptionGroup: two (2 sub-exceptions)");
}

TEST(Digest, ASyntaxErrorHasNoTracebackLine) {
  StderrDigest digest = digest_of({"  File \"x.py\", line 1", "    def", "       ^", "SyntaxError: invalid syntax"});
  EXPECT_EQ(digest.first_error_time, kStart);
  EXPECT_EQ(digest.exception_line, "SyntaxError: invalid syntax");
}

TEST(Digest, IgnoredExceptionsAreNoErrors) {
  StderrDigest digest = digest_of({"Traceback (most recent call last):", "  File \"x.py\"", "ValueError: real",
                                   "Exception ignored in: <function f at 0x1>",
                                   "Traceback (most recent call last):", "  File \"y.py\"", "TypeError: later"});
  EXPECT_EQ(digest.first_error_time, kStart);
  EXPECT_EQ(digest.exception_line, "ValueError: real");
}

TEST(Digest, CxxTerminateTellsTypeAndMessage) {
  StderrDigest digest = digest_of(
      {"hello", "terminate called after throwing an instance of 'std::runtime_error'", "  what():  out of coffee"});
  EXPECT_EQ(digest.first_error_time, kStart + seconds(1));
  EXPECT_EQ(digest.exception_line, "std::runtime_error: out of coffee");
}

TEST(Digest, OtherLastWords) {
  for (std::string_view line :
       {"Fatal Python error: Segmentation fault", "==17==ERROR: AddressSanitizer: heap-use-after-free",
        "*** stack smashing detected ***: terminated", "Segmentation fault (core dumped)",
        "free(): double free detected in tcache 2", "a.out: a.c:3: main: Assertion `x == 1' failed.",
        "thread 'main' panicked at src/main.rs:2:5:", "malloc(): corrupted top size"}) {
    StderrDigest digest = digest_of({"before", line, "after"});
    EXPECT_EQ(digest.first_error_time, kStart + seconds(1)) << line;
    EXPECT_EQ(digest.exception_line, line);
  }
  for (std::string_view line :
       {"thread 'main' started", "==17== HEAP SUMMARY", "free as in beer", "the test failed."}) {
    EXPECT_FALSE(digest_of({line}).first_error_time) << line;
  }
}

TEST(Digest, AnUnfinishedLastLineCounts) {
  DigestBuilder builder;
  builder.feed("Segmentation fault", kStart + seconds(2));
  EXPECT_EQ(builder.digest().first_error_time, kStart + seconds(2));
}

TEST(Digest, TheTailIsBoundedAndStartsWithALine) {
  DigestBuilder builder;
  std::string all;
  for (int i = 0; i < 20000; ++i) {
    std::string line = "line " + std::to_string(i) + "\n";
    builder.feed(line, kStart);
    all += line;
  }
  std::string tail = builder.digest().tail;
  EXPECT_LE(tail.size(), DigestBuilder::kTail);
  EXPECT_GT(tail.size(), DigestBuilder::kTail - 100);
  EXPECT_TRUE(all.ends_with("\n" + tail));
}

TEST(Digest, TheResultDoesNotDependOnTheChunks) {
  std::string input = "x\n[rank0]: Traceback (most recent call last):\n[rank0]:   File\n[rank0]: E: 1\n" +
                      std::string(DigestBuilder::kTail, 'y') +
                      "\nterminate called after throwing an instance of 'T'\n"
                      "  what():  z\nend";
  DigestBuilder whole;
  whole.feed(input, kStart);
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    DigestBuilder builder;
    for (size_t at = 0; at < input.size();) {
      size_t size = 1 + random() % (round % 2 == 0 ? 20 : 20000);
      builder.feed(std::string_view(input).substr(at, size), kStart);
      at += size;
    }
    ASSERT_EQ(builder.digest().tail, whole.digest().tail);
    ASSERT_EQ(builder.digest().exception_line, whole.digest().exception_line);
    ASSERT_EQ(builder.digest().first_error_time, whole.digest().first_error_time);
  }
}

}  // namespace
}  // namespace muster::output
