#include "muster/cluster/ssh/steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cluster::ssh {
namespace {

using ::testing::ElementsAre;
using Push = Options::Push;
using namespace std::chrono_literals;

TEST(SshSteps, CommandLine) {
  Options options;
  options.options = {"Port=2222", "ConnectTimeout=1"};
  options.connect_timeout = 1500ms;
  EXPECT_THAT(ssh_command(options, {"me@n1", 4}, {"/opt/muster", "agent"}),
              ElementsAre("ssh", "-T", "-o", "Port=2222", "-o", "ConnectTimeout=1", "-o", "BatchMode=yes", "-o",
                          "ConnectTimeout=2", "-o", "ControlMaster=no", "-o", "ClearAllForwardings=yes", "-o",
                          "ForwardAgent=no", "-o", "RemoteCommand=none", "--", "me@n1", "/opt/muster", "agent"));
}

TEST(SshSteps, ArgumentsOfTheCommandStandFirst) {
  Options options;
  options.ssh = "/opt/ssh";
  options.arguments = {"-F", "my config"};
  options.options = {"Port=2222"};
  const std::vector<std::string> argv = ssh_command(options, {"n1", {}}, {"true"});
  EXPECT_THAT(std::vector(argv.begin(), argv.begin() + 6),
              ElementsAre("/opt/ssh", "-F", "my config", "-T", "-o", "Port=2222"));
}

TEST(SshSteps, RemoteCommandsArePlainWords) {
  Names names{"/opt/muster/bin/muster", "c0ffee", "1b4e28ba-2fa1"};
  EXPECT_THAT(remote_command(Step::kOwnProgram, names), ElementsAre("/opt/muster/bin/muster", "agent"));
  EXPECT_THAT(remote_command(Step::kCachedProgram, names), ElementsAre(".cache/muster/c0ffee/muster", "agent"));
  EXPECT_THAT(remote_command(Step::kMove, names),
              ElementsAre("mv", "-f", ".cache/muster/c0ffee/muster.1b4e28ba-2fa1.part", ".cache/muster/c0ffee/muster"));
  EXPECT_THAT(remote_command(Step::kGuardCached, names),
              ElementsAre("chmod", "700", ".cache/muster", ".cache/muster/c0ffee", ".cache/muster/c0ffee/muster"));
  for (Step step :
       {Step::kOwnProgram, Step::kGuardCached, Step::kCheckCached, Step::kCachedProgram, Step::kMakeFolder,
        Step::kGuardFolder, Step::kSend, Step::kCheck, Step::kAllow, Step::kMove, Step::kSentProgram, Step::kRemove}) {
    for (std::string word : remote_command(step, names)) {
      if (word.starts_with("of=") || word == "bs=65536") word.erase(0, 3);
      if (word.starts_with('-')) word.erase(0, 1);
      EXPECT_TRUE(is_plain_word(word)) << word;
    }
  }
}

TEST(SshSteps, PlainWords) {
  EXPECT_TRUE(is_plain_word("/opt/g++-12/muster_1.0"));
  for (const char* word : {"", "-x", "/home/a b/muster", "/x;y", "$x", "~/x", "a*", "a'b", "a\nb", "a\\b", "{a,b}",
                           "a=b", "/h\xc3\xb6me/muster", "a#b", "a&b", "!x", "a%b", "[a]", "?"}) {
    EXPECT_FALSE(is_plain_word(word)) << word;
  }
}

TEST(SshSteps, OurOwnPathIsTriedFirstWhereItCanBe) {
  Options options;
  options.program = "/opt/muster";
  EXPECT_EQ(first_step(options), Step::kOwnProgram);
  options.push = Push::kAlways;
  EXPECT_EQ(first_step(options), Step::kGuardCached);
  options.push = Push::kAuto;
  options.program = "/home/my user/muster";
  EXPECT_EQ(first_step(options), Step::kGuardCached);
}

// What was sent earlier runs only once it is known to be ours and unchanged.
TEST(SshSteps, NothingCachedRunsUnchecked) {
  for (int from = 0; from <= static_cast<int>(Step::kRemove); ++from) {
    const Step step = static_cast<Step>(from);
    EXPECT_EQ(step_after_success(step) == Step::kCachedProgram, step == Step::kCheckCached);
    EXPECT_EQ(step_after_success(step) == Step::kCheckCached, step == Step::kGuardCached);
    EXPECT_EQ(step_after_success(step) == Step::kSend, step == Step::kGuardFolder);
    EXPECT_NE(step_after_failure(step, Push::kAuto), Step::kCachedProgram);
  }
}

TEST(SshSteps, EveryWayEnds) {
  constexpr int kMostSteps = 12;
  for (Push push : {Push::kAuto, Push::kAlways, Push::kNever}) {
    for (unsigned outcomes = 0; outcomes < 1U << kMostSteps; ++outcomes) {
      std::optional<Step> step = Step::kOwnProgram;
      int length = 0;
      for (; step && length < kMostSteps; ++length) {
        step = (outcomes >> length & 1) != 0 ? step_after_success(*step) : step_after_failure(*step, push);
        EXPECT_TRUE(push != Push::kNever || !step || is_attempt(*step));
      }
      EXPECT_FALSE(step) << outcomes;
    }
  }
}

struct Case {
  const char* text;
  const char* meaning;
  int code;
  bool again;
  StartCause cause;
};

// Texts of OpenSSH 9.2p1.
TEST(SshFailure, WhatItMeans) {
  using enum StartCause;
  const Case cases[] = {
      {"ssh: connect to host n1 port 22: Connection refused", "connection refused", 255, true, kUnreachable},
      {"ssh: connect to host 10.1.2.3 port 22: No route to host", "no route to the host", 255, true, kUnreachable},
      {"ssh: connect to host fd00::1 port 22: Network is unreachable", "the network is unreachable", 255, true,
       kUnreachable},
      {"ssh: connect to host 10.1.2.3 port 22: Connection timed out", "connection timed out", 255, true, kTimedOut},
      {"Connection timed out during banner exchange\nConnection to 10.255.255.1 port 22 timed out",
       "connection timed out", 255, true, kTimedOut},
      {"ssh: Could not resolve hostname n17: Name or service not known", "no such host", 255, false, kNoSuchHost},
      {"ssh: Could not resolve hostname n17: Temporary failure in name resolution",
       "the name cannot be looked up just now", 255, true, kNoSuchHost},
      {"No ED25519 host key is known for n1 and you have requested strict checking.\nHost key verification failed.",
       "host key verification failed", 255, false, kHostKey},
      {"@@@@@@@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@@@@@@@@@\n"
       "IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\nHost key verification failed.",
       "the host key has changed", 255, false, kHostKey},
      {"Warning: Permanently added 'n1' (ED25519) to the list of known hosts.\nme@n1: Permission denied (publickey).",
       "permission denied (publickey)", 255, false, kPermission},
      {"me@n1: Permission denied (publickey,gssapi-with-mic,password).",
       "permission denied (publickey,gssapi-with-mic,password)", 255, false, kPermission},
      {"Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures\nDisconnected from 10.0.0.1",
       "too many authentication failures", 255, false, kPermission},
      {"kex_exchange_identification: Connection closed by remote host\nConnection closed by 127.0.0.1 port 42629",
       "connection closed by the other side", 255, true, kLost},
      {"kex_exchange_identification: read: Connection reset by peer\nConnection reset by 127.0.0.1 port 43423",
       "connection reset", 255, true, kLost},
      {"Access denied by pam_slurm_adopt: you have no active jobs on this node\nConnection closed by 10.0.0.1 port 22",
       "you have no job on this node (pam_slurm_adopt)", 255, false, kPermission},
      {"command-line: line 0: Bad configuration option: foo", "command-line: line 0: Bad configuration option: foo",
       255, false, kThisMachine},
      {"command-line line 0: unsupported option \"maybe\".", "command-line line 0: unsupported option \"maybe\".", 255,
       false, kThisMachine},
      {"command-line line 0: invalid time value.", "command-line line 0: invalid time value.", 255, false,
       kThisMachine},
      {"command-line line 0: Bad port 'x'.", "command-line line 0: Bad port 'x'.", 255, false, kThisMachine},
      {"command-line line 0: Unsupported option \"gssapikeyexchange\"\nConnection refused", "connection refused", 255,
       true, kUnreachable},
      {"unknown option -- Z\nusage: ssh [-46AaCfGgKkMNnqsTtVvXxYy]", "it does not take these options", 255, false,
       kThisMachine},
      {"/home/me/.ssh/config: line 3: Bad configuration option: foo\n/home/me/.ssh/config: terminating, 1 bad "
       "configuration options",
       "/home/me/.ssh/config: line 3: Bad configuration option: foo", 255, false, kThisMachine},
      {"Timeout, server n1 not responding.", "connection lost (the host no longer answers)", 255, true, kLost},
      {"client_loop: send disconnect: Broken pipe", "connection lost", 255, true, kLost},
      {"Connection to n1 closed by remote host.", "connection closed by the other side", 255, true, kLost},
      {"first\nsomething new\n\n", "something new", 255, true, kLost},
      {"", "exit code 255", 255, true, kLost},
      {" \n", "exit code 137", 137, true, kLost},
  };
  for (const Case& c : cases) {
    const StartFailure failure = explain_failure(c.code, c.text);
    EXPECT_EQ(failure.why.message, c.meaning);
    EXPECT_EQ(failure.cause, c.cause) << c.text;
    EXPECT_EQ(failure.may_try_again, c.again) << c.text;
    EXPECT_EQ(explain_failure(c.code, "*** Authorised users only ***\n" + std::string(c.text)).may_try_again, c.again);
  }
}

TEST(SshFailure, LastWords) {
  EXPECT_TRUE(is_last_word("client_loop: send disconnect: Broken pipe"));
  EXPECT_TRUE(is_last_word("Connection to n1 closed by remote host."));
  EXPECT_TRUE(is_last_word("Connection to n1 closed."));
  EXPECT_TRUE(is_last_word("Timeout, server n1 not responding."));
  EXPECT_FALSE(is_last_word("muster: Connection to n1 closed."));
  EXPECT_FALSE(is_last_word("Connection to the database is open"));
  EXPECT_FALSE(is_last_word(""));
}

}  // namespace
}  // namespace muster::cluster::ssh
