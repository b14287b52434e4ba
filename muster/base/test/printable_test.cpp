#include "muster/base/printable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/log.h"

namespace muster {
namespace {

using namespace std::string_literals;
using testing::ElementsAre;

TEST(Printable, LeavesTextAlone) {
  for (const char* text : {"", "plain", "tab\there", "grün ✓ 🚀"}) EXPECT_EQ(printable(text), text);
}

TEST(Printable, RemovesEscapeSequences) {
  EXPECT_EQ(printable("\x1b[1;31mred\x1b[0m"), "red");
  EXPECT_EQ(printable("\x1b]0;title\ahello\x1b]8;;http://x\x1b\\link"), "hellolink");
  EXPECT_EQ(printable("cut \x1b[31"), "cut ");
  EXPECT_EQ(printable("cut \x1b"), "cut ");
  EXPECT_EQ(printable("a\x1b(Bb"), "aBb");
}

TEST(Printable, ShowsControlBytes) {
  EXPECT_EQ(printable("a\0b\x7f"s), "a\\x00b\\x7f");
  EXPECT_EQ(printable("bell\a"), "bell\\x07");
}

TEST(Printable, ReplacesWhatIsNoUtf8) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(printable("\xff"), bad);
  EXPECT_EQ(printable("\xc0\xaf"), bad + bad);            // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), bad + bad + bad);  // surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), bad + bad + bad + bad);
  EXPECT_EQ(printable("caf\xc3"), "caf" + bad);  // cut off
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            bad + bad + "31m");  // C1 control
}

TEST(Escaped, HidesNothing) {
  EXPECT_EQ(escaped("a \x1b[2Jb\r\nc\td\x7f"), "a \\x1b[2Jb\\x0d\\x0ac\td\\x7f");
  EXPECT_EQ(escaped("grün\xff"), "grün\xEF\xBF\xBD");
}

TEST(Escaped, IsWhatALogSays) {
  std::string said;
  Log([&](LogLevel, std::string_view text) { said = text; }).warn("refused {}", "\x1b[2Jroot\rx\ny");
  EXPECT_EQ(said, "refused \\x1b[2Jroot\\x0dx\ny");
}

TEST(Printable, ShowsTheLastStateOfAProgressLine) { EXPECT_EQ(printable("10%\r20%\r30%\r\n"), "30%"); }

TEST(LastLines, TakesTheLastAndSkipsBlankOnesAtTheEnd) {
  EXPECT_THAT(last_lines("a\nb\n\nc\n\n  \n", 3), ElementsAre("b", "", "c"));
  EXPECT_THAT(last_lines("a", 3), ElementsAre("a"));
  EXPECT_THAT(last_lines("\n\n", 3), ElementsAre());
  EXPECT_THAT(last_lines("", 3), ElementsAre());
}

}  // namespace
}  // namespace muster
