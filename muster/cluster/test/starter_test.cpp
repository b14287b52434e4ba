#include "muster/cluster/starter.h"

#include <gtest/gtest.h>

namespace muster::cluster {
namespace {

TEST(AgentEnded, SaysItInItsOwnWords) {
  Error error = agent_ended({.code = 125}, "muster: error: wrong token");
  EXPECT_EQ(error.message, "wrong token");
  EXPECT_EQ(exit_code(error), 125);
  EXPECT_EQ(agent_ended({.code = 125}, "Killed").message, "the agent ended: exit code 125 (Killed)");
  EXPECT_EQ(agent_ended({.signal = 9}, "muster: error: old").message,
            "the agent ended: SIGKILL (signal 9) (muster: error: old)");
}

TEST(AgentEnded, AMissingProgramKeepsItsExitCode) {
  EXPECT_EQ(exit_code(agent_ended({.code = 127}, "muster: error: /tmp/x does not exist")), 127);
  EXPECT_EQ(exit_code(agent_ended({.code = 126}, "")), 126);
  EXPECT_EQ(exit_code(agent_ended({.code = 2}, "")), 125);
}

}  // namespace
}  // namespace muster::cluster
