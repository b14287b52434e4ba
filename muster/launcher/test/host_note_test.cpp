#include "muster/launcher/host_note.h"

#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

TEST(HostNote, AnAttemptThatIsUnderWayDoesNotHideWhyTheLastOneFailed) {
  HostNote note;
  note.progress("connecting");
  EXPECT_EQ(note.all(), "connecting");
  EXPECT_FALSE(note.has_failed());
  note.failure("ssh: no route to the host", 1);
  EXPECT_EQ(note.now(), "ssh: no route to the host, attempt 1");
  EXPECT_EQ(note.all(), "ssh: no route to the host, attempt 1");
  note.progress("connecting, attempt 2");
  EXPECT_EQ(note.now(), "connecting, attempt 2");
  EXPECT_EQ(note.all(), "ssh: no route to the host; attempt 2 was under way (connecting)");
  note.failure("ssh: no such host", 0);
  EXPECT_EQ(note.all(), "ssh: no such host");
}

TEST(HostNote, ThatTheSameHappensAgainIsNoNews) {
  HostNote note;
  note.progress("connecting");
  EXPECT_EQ(note.news(), "connecting");
  for (int attempt = 1; attempt < 4; ++attempt) {
    note.failure("ssh: connection timed out", attempt);
    EXPECT_EQ(note.news(), "ssh: connection timed out");
    note.progress("connecting, attempt " + std::to_string(attempt + 1));
    EXPECT_EQ(note.news(), "ssh: connection timed out");
  }
  note.failure("ssh: connection refused", 4);
  EXPECT_EQ(note.news(), "ssh: connection refused");
  note.progress("setting up: prologue");
  EXPECT_EQ(note.news(), "setting up: prologue");
}

TEST(HostNote, IsOneLine) {
  HostNote note;
  note.progress("setting up: \x1b[2J");
  EXPECT_EQ(note.now().find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace muster::launcher
