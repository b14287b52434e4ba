#include "muster/cluster/starter.h"

#include <gtest/gtest.h>

#include "muster/base/strings.h"

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
  EXPECT_EQ(exit_code(agent_ended({.code = 2}, "muster: error: line 3 of setup.sh failed")), 2);
}

TEST(FetchCommand, HasNothingSecretAndOnlyPlainWords) {
  const Fetch fetch{.endpoints = {"10.0.0.1:4711", "[fe80::1]:4711"}, .nonce = "00ff", .munge = true};
  EXPECT_EQ(join(fetch_command("/opt/muster", fetch, "n1"), " "),
            "/opt/muster agent --fetch 10.0.0.1:4711,fe80::1:4711 --nonce 00ff --by munge --name n1");
  EXPECT_EQ(join(fetch_command("m", {.endpoints = {"10.0.0.1:1"}, .nonce = "a", .munge = false}), " "),
            "m agent --fetch 10.0.0.1:1 --nonce a --by key");
}

}  // namespace
}  // namespace muster::cluster
