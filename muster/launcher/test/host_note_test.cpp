#include "muster/launcher/host_note.h"

#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

using cluster::Progress;
using cluster::StartCause;
using Stage = Progress::Stage;

cluster::StartFailure failure(StartCause cause, const std::string& message, const std::string& hint = {}) {
  return {cause, {ErrorKind::kPeer, message, hint}, true};
}

TEST(HostNote, AnAttemptThatIsUnderWayDoesNotHideWhyTheLastOneFailed) {
  HostNote note;
  note.progress({Stage::kConnecting});
  EXPECT_EQ(note.all(), "connecting");
  EXPECT_FALSE(note.has_failed());
  note.failure(failure(StartCause::kUnreachable, "ssh: no route to the host", "look at the cable"), 1);
  EXPECT_EQ(note.now(), "ssh: no route to the host, attempt 1");
  EXPECT_EQ(note.all(), "ssh: no route to the host, attempt 1");
  note.progress({Stage::kConnecting});
  EXPECT_EQ(note.now(), "connecting, attempt 2");
  EXPECT_EQ(note.all(), "ssh: no route to the host; attempt 2 was under way (connecting)");
  note.failure(failure(StartCause::kNoSuchHost, "ssh: no such host", "check the name"), 0);
  EXPECT_EQ(note.all(), "ssh: no such host; check the name");
}

TEST(HostNote, ThatTheSameHappensAgainIsNoNews) {
  HostNote note;
  note.progress({Stage::kConnecting});
  EXPECT_EQ(note.news(), "connecting");
  for (int attempt = 1; attempt < 4; ++attempt) {
    note.failure(failure(StartCause::kTimedOut, "ssh: connection timed out"), attempt);
    EXPECT_EQ(note.news(), "ssh: connection timed out");
    note.progress({Stage::kConnecting});
    EXPECT_EQ(note.news(), "ssh: connection timed out");
  }
  note.failure(failure(StartCause::kUnreachable, "ssh: connection refused"), 4);
  EXPECT_EQ(note.news(), "ssh: connection refused");
  note.progress({Stage::kSettingUp, "prologue"});
  EXPECT_EQ(note.news(), "setting up: prologue");
}

TEST(HostNote, IsOneLine) {
  HostNote note;
  note.progress({Stage::kSettingUp, "\x1b[2J"});
  EXPECT_EQ(note.now().find('\x1b'), std::string::npos);
}

TEST(ProgressText, SaysHowFarAStartHasCome) {
  EXPECT_EQ(progress_text({Stage::kConnecting}), "connecting");
  EXPECT_EQ(progress_text({Stage::kRequested, "", "srun"}), "starting through srun");
  EXPECT_EQ(progress_text({Stage::kWaiting, "Requested nodes are busy", "srun"}),
            "srun waits: Requested nodes are busy");
  EXPECT_EQ(progress_text({Stage::kReplacing}), "the program that is kept there has changed");
  EXPECT_EQ(progress_text({Stage::kSending}), "sending the program");
  EXPECT_EQ(progress_text({Stage::kSending, "5.2 MB"}), "sending the program (5.2 MB)");
  EXPECT_EQ(progress_text({Stage::kStarting}), "starting");
  EXPECT_EQ(progress_text({Stage::kUnreachable, "10.0.0.1:4711: connection refused"}),
            "its agent cannot reach 10.0.0.1:4711: connection refused");
}

}  // namespace
}  // namespace muster::launcher
