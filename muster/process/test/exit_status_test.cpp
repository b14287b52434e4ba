#include "muster/process/exit_status.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace muster::process {
namespace {

TEST(ExitStatus, CodesOfAnExit) {
  ExitStatus status{.code = 7};
  EXPECT_FALSE(status.success());
  EXPECT_EQ(status.shell_code(), 7);
  EXPECT_EQ(status.popen_code(), 7);
  EXPECT_EQ(status.text(), "exit code 7");
  EXPECT_TRUE(ExitStatus{}.success());
}

TEST(ExitStatus, CodesOfASignal) {
  ExitStatus status{.signal = SIGKILL};
  EXPECT_FALSE(status.success());
  EXPECT_EQ(status.shell_code(), 137);
  EXPECT_EQ(status.popen_code(), -9);
  EXPECT_EQ(status.text(), "SIGKILL (signal 9)");
}

}  // namespace
}  // namespace muster::process
