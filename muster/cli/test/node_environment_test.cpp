#include "muster/cli/node_environment.h"

#include <gmock/gmock.h>

namespace muster::cli {
namespace {

using process::Environment;
using testing::ElementsAre;
using testing::Pair;

TEST(NodeEnvironment, WhatBelongsToAMachineOrASessionIsNotSent) {
  EXPECT_THAT(environment_to_send({{"PATH", "/bin"},
                                   {"HOME", "/home/me"},
                                   {"SSH_CONNECTION", "x"},
                                   {"DBUS_SESSION_BUS_ADDRESS", "x"},
                                   {"XDG_RUNTIME_DIR", "/run/user/7"},
                                   {"HOSTNAME", "here"},
                                   {"MUSTER_TOKEN", "secret"},
                                   {"NCCL_DEBUG", "INFO"}}),
              ElementsAre(Pair("PATH", "/bin"), Pair("NCCL_DEBUG", "INFO")));
}

TEST(NodeEnvironment, ANodeAddsWhatIsItsOwn) {
  const Environment own = {{"PATH", "/there"}, {"HOME", "/there/me"}, {"TMPDIR", "/there/tmp"}, {"SHELL", "/bin/sh"}};
  EXPECT_THAT(environment_of_node({{"PATH", "/bin"}, {"TMPDIR", "/given"}, {"MUSTER_TOKEN", "secret"}}, own),
              ElementsAre(Pair("PATH", "/bin"), Pair("TMPDIR", "/given"), Pair("HOME", "/there/me")));
}

TEST(NodeEnvironment, NoTokenForWorkers) {
  EXPECT_THAT(without_token({{"A", "1"}, {"MUSTER_TOKEN", "secret"}, {"B", "2"}}),
              ElementsAre(Pair("A", "1"), Pair("B", "2")));
}

}  // namespace
}  // namespace muster::cli
