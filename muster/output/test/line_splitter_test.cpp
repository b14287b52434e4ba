#include <gtest/gtest.h>

#include <random>

#include "muster/output/line_splitter.h"

namespace muster::output {
namespace {

using Style = StreamPlan::Style;

std::string split_whole(Style style, std::string_view input, const std::string& label = "[0] ", size_t longest = 4096) {
  LineSplitter splitter(style, label, longest);
  std::string out;
  splitter.feed(input, out);
  splitter.finish(out);
  return out;
}

TEST(LineSplitter, LabelsEveryLine) { EXPECT_EQ(split_whole(Style::kLines, "a\n\nbc\n"), "[0] a\n[0] \n[0] bc\n"); }

TEST(LineSplitter, EndsAnUnfinishedLastLine) {
  EXPECT_EQ(split_whole(Style::kLines, "a\nbc"), "[0] a\n[0] bc\n");
  EXPECT_EQ(split_whole(Style::kTorchrun, "a\nbc"), "[0] a\n[0] bc");
}

TEST(LineSplitter, RawIsUntouched) {
  EXPECT_EQ(split_whole(Style::kRaw,
                        "a\r\xff"
                        "b",
                        ""),
            "a\r\xff"
            "b");
}

TEST(LineSplitter, KeepsTheLastStateOfARewrittenLine) {
  EXPECT_EQ(split_whole(Style::kLines, "\r10%\r20%\r30%\n"), "[0] 30%\n");
  EXPECT_EQ(split_whole(Style::kLines, "10%\r20%\r"), "[0] 20%\n");
  EXPECT_EQ(split_whole(Style::kLines, "dos\r\nline\r\n"), "[0] dos\n[0] line\n");
  EXPECT_EQ(split_whole(Style::kLines, "bar\r   \rtext\nnext\n"), "[0] text\n[0] next\n");
}

// As tqdm writes them: down to the inner bar, its state, up again to the outer one.
TEST(LineSplitter, BarsInsideOfBarsAreRewrittenToo) {
  const std::string bars = "\repochs 0%\n\rbatches 0%\x1b[A\n\rbatches 50%\x1b[A";
  EXPECT_EQ(split_whole(Style::kLines, bars), "[0] epochs 0%\n[0] batches 50%\n");
  EXPECT_EQ(split_whole(Style::kLines, bars + "\n\r     \x1b[A\r    \rloss 1\n\repochs 50%\n"),
            "[0] epochs 0%\n[0] loss 1\n[0] epochs 50%\n");
  EXPECT_EQ(split_whole(Style::kLines, bars + "print\n"), "[0] epochs 0%\n[0] print\n");
  EXPECT_EQ(split_whole(Style::kLines, "\r1\n\n\r3\x1b[A\x1b[A\n\n\r4\x1b[A\x1b[A"), "[0] 1\n[0] \n[0] 4\n");
  EXPECT_EQ(split_whole(Style::kLines, "no bar\x1b[A\n"), "[0] no bar\x1b[A\n");
  LineSplitter splitter(Style::kLines, "[0] ");
  std::string out;
  splitter.feed(bars, out);
  EXPECT_EQ(splitter.progress(), "batches 50%");
}

TEST(LineSplitter, TorchrunEndsLinesAtEveryReturn) {
  EXPECT_EQ(split_whole(Style::kTorchrun, "10%\r20%\r\nx\n\r\n"), "[0] 10%\n[0] 20%\n[0] x\n[0] \n");
}

TEST(LineSplitter, TorchrunReplacesBadUtf8AsPythonDoes) {
  // Python 3.11: b"...".decode(errors="replace")
  EXPECT_EQ(split_whole(Style::kTorchrun,
                        "a\xff"
                        "b\n",
                        ""),
            "a\xef\xbf\xbd"
            "b\n");
  EXPECT_EQ(split_whole(Style::kTorchrun, "\xe2\x82\xac\xe2\x82\n", ""), "\xe2\x82\xac\xef\xbf\xbd\n");
  EXPECT_EQ(split_whole(Style::kTorchrun, "\xed\xa0\x80\n", ""), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\n");
  EXPECT_EQ(split_whole(Style::kTorchrun, "\xf0\x9f\x98\n", ""), "\xef\xbf\xbd\n");
  EXPECT_EQ(split_whole(Style::kTorchrun, "\xc0\xaf\n", ""), "\xef\xbf\xbd\xef\xbf\xbd\n");
  EXPECT_EQ(split_whole(Style::kTorchrun, "\xf0\x9f\x98\x80\n", ""), "\xf0\x9f\x98\x80\n");
}

TEST(LineSplitter, ALineWithoutEndIsShownInPieces) {
  EXPECT_EQ(split_whole(Style::kLines, "abcdefgh\nij\n", "> ", 3), "> abc\n> def\n> gh\n> ij\n");
}

TEST(LineSplitter, APromptIsShownOnceAndContinued) {
  LineSplitter splitter(Style::kLines, "[0] ");
  std::string out;
  splitter.feed("name? ", out);
  EXPECT_EQ(out, "");
  ASSERT_TRUE(splitter.has_partial());
  splitter.flush_partial(out);
  EXPECT_EQ(out, "[0] name? ");
  splitter.feed("hello\nnext\n", out);
  EXPECT_EQ(out, "[0] name? hello\n[0] next\n");
}

TEST(LineSplitter, AfterAnInterruptionAPromptsLineIsLabelledAgain) {
  LineSplitter splitter(Style::kLines, "[0] ");
  std::string out;
  splitter.feed("name? ", out);
  splitter.flush_partial(out);
  splitter.reopen();
  out.clear();
  splitter.feed("hello\n", out);
  EXPECT_EQ(out, "[0] hello\n");
}

TEST(LineSplitter, ProgressIsWhatATerminalWouldShow) {
  LineSplitter splitter(Style::kLines, "[0] ");
  std::string out;
  splitter.feed("no progress yet", out);
  EXPECT_EQ(splitter.progress(), "");
  splitter.feed("\r10%\r20", out);
  EXPECT_EQ(splitter.progress(), "20");
  splitter.feed("%", out);
  EXPECT_EQ(splitter.progress(), "20%");
  splitter.feed("\n", out);
  EXPECT_EQ(splitter.progress(), "");
  EXPECT_EQ(out, "[0] 20%\n");
}

// Whatever the pieces in which a stream arrives, the console shows the same.
TEST(LineSplitter, TheResultDoesNotDependOnTheChunks) {
  std::mt19937 random(1);
  constexpr std::string_view kAlphabet = "ab\n\n\r\xe2\x82\xac\xff";
  for (int round = 0; round < 3000; ++round) {
    std::string input;
    for (size_t size = random() % 60; input.size() < size;)
      input += random() % 8 == 0 ? "\x1b[A" : std::string(1, kAlphabet[random() % kAlphabet.size()]);
    for (Style style : {Style::kRaw, Style::kLines, Style::kTorchrun}) {
      size_t longest = round % 2 == 0 ? 5 : 4096;
      LineSplitter splitter(style, "<7>", longest);
      std::string out;
      for (size_t at = 0; at < input.size();) {
        size_t size = 1 + random() % 9;
        splitter.feed(std::string_view(input).substr(at, size), out);
        at += size;
      }
      splitter.finish(out);
      ASSERT_EQ(out, split_whole(style, input, "<7>", longest)) << ::testing::PrintToString(input);
    }
  }
}

}  // namespace
}  // namespace muster::output
