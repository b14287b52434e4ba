#include "muster/report/last_words.h"

#include <gtest/gtest.h>

namespace muster::report {
namespace {

TEST(LastWords, OfAPlainTraceback) {
  LastWords words = last_words(
      "starting\n"
      "Traceback (most recent call last):\n"
      "  File \"train.py\", line 3, in <module>\n"
      "    main()\n"
      "ValueError: bad batch\n");
  EXPECT_EQ(words.last_exception, "ValueError: bad batch");
  EXPECT_EQ(words.first_exception, "ValueError: bad batch\n");
  EXPECT_EQ(words.lines_after, 0u);
}

TEST(LastWords, IgnoresTheRankPyTorchPutsInFront) {
  LastWords words = last_words(
      "[rank12]: Traceback (most recent call last):\r\n[rank12]:   File \"a\"\r\n[rank12]: RuntimeError: "
      "no\r\n[rank12]: "
      "more of it\r\n");
  EXPECT_EQ(words.last_exception, "RuntimeError: no");
  EXPECT_EQ(words.first_exception, "RuntimeError: no\nmore of it\n");
  EXPECT_EQ(words.lines_after, 1u);
}

TEST(LastWords, FollowsAChainToItsBeginning) {
  LastWords words = last_words(
      "Traceback (most recent call last):\n  File \"z\"\nKeyError: 'long ago, handled'\nstep 3\n"
      "Traceback (most recent call last):\n  File \"a\"\nValueError: first\n\n"
      "The above exception was the direct cause of the following exception:\n\n"
      "Traceback (most recent call last):\n  File \"b\"\nRuntimeError: second\n\n"
      "During handling of the above exception, another exception occurred:\n\n"
      "Traceback (most recent call last):\n  File \"c\"\nOSError: third\nbye\n");
  EXPECT_EQ(words.last_exception, "OSError: third");
  EXPECT_EQ(words.first_exception.substr(0, 17), "ValueError: first");
  EXPECT_EQ(words.first_exception.find("RuntimeError"), std::string::npos);
  EXPECT_EQ(words.lines_after, 1u);
}

TEST(LastWords, SurvivesTextThatWasCutOff) {
  EXPECT_EQ(last_words("").last_exception, "");
  EXPECT_EQ(last_words("Traceback (most recent call last):").last_exception, "");
  EXPECT_EQ(last_words("Traceback (most recent call last):\n  File \"a\"\n").last_exception, "");
  LastWords words = last_words(
      "During handling of the above exception, another exception occurred:\n\n"
      "Traceback (most recent call last):\n  File \"c\"\nOSError: third\n");
  EXPECT_EQ(words.first_exception, "OSError: third\n");
}

TEST(LastWords, OfADigestAreThoseOfItsError) {
  const std::string handled = "Traceback (most recent call last):\n  File \"a\"\nKeyError: 'handled'\n";
  EXPECT_EQ(last_words({handled, std::nullopt, ""}).last_exception, "");
  EXPECT_EQ(last_words({handled, TimePoint(), "KeyError: 'handled'"}).last_exception, "KeyError: 'handled'");
  LastWords abort = last_words({handled + "terminate called\n", TimePoint(), "terminate called"});
  EXPECT_EQ(abort.first_exception, "terminate called");
}

TEST(PeerLossPhrase, IsTheOneFound) {
  EXPECT_EQ(peer_loss_phrase("x: connection RESET by peer [1]"), "Connection reset by peer");
  EXPECT_EQ(peer_loss_phrase("all is well"), "");
}

}  // namespace
}  // namespace muster::report
