// The starter with the real ssh and a real sshd. A script stands in for the agent.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "muster/base/environment.h"
#include "muster/base/strings.h"
#include "muster/cluster/description.h"
#include "muster/cluster/ssh/starter.h"
#include "sshd.h"

namespace muster::cluster::ssh {
namespace {

using test::contents;
using test::run_until;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RealSsh : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { sshd = std::make_unique<test::Sshd>(); }
  static void TearDownTestSuite() { sshd.reset(); }

  RealSsh() {
    options_.options = sshd->options();
    options_.program = dir_ / "muster";
    options_.binary = dir_.script("binary", agent_script());
  }
  // Greets, takes 12 bytes, says so and waits for the end of stdin, of which it leaves a note.
  std::string agent_script() const {
    return fmt::format(
        "[ \"$1\" = agent ] || exit 2; echo {}; head -c 12 >{}; echo ready >&2; read more; echo over >{}\n",
        trim(agent_greeting()), dir_ / "got", dir_ / "over");
  }
  void make() {
    Environment environment{{"PATH", "/usr/bin:/bin"}};
    starter_ = make_starter(loop_, options_, environment, told_.handlers());
  }
  void start(const std::string& host = "127.0.0.1", int position = 0) {
    starter_->start(position, {host, {}}, "c0ffee-token");
  }
  bool until(const std::string& line) {
    return run_until(loop_, [&] { return told_.has(line); });
  }
  std::string failure() {
    EXPECT_TRUE(until("0 failed"));
    return told_.lines.empty() ? "" : told_.lines.back().substr(9);
  }

  static std::unique_ptr<test::Sshd> sshd;
  test::TempDir dir_;
  net::EventLoop loop_;
  test::Told told_;
  Options options_;
  std::unique_ptr<Starter> starter_;
};
std::unique_ptr<test::Sshd> RealSsh::sshd;

TEST_F(RealSsh, AnAgentIsStartedAndSeesOurEnd) {
  dir_.script("muster", agent_script());
  make();
  start();
  ASSERT_TRUE(until("0 said ready"));
  EXPECT_THAT(told_.lines, ElementsAre("0 progress connecting", "0 progress starting", "0 said ready"));
  EXPECT_EQ(contents(dir_ / "got"), "c0ffee-token");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "over"));
  starter_.reset();
  EXPECT_TRUE(run_until(loop_, [&] { return contents(dir_ / "over") == "over\n"; }));
}

TEST_F(RealSsh, TheProgramIsSentAndCached) {
  // Every byte there is, and a size that is no multiple of any block.
  std::string bytes = "#!/bin/sh\n" + agent_script() + "exit\n";
  for (int i = 0; i < 3'000'001; ++i) bytes += static_cast<char>(i * 7 + i / 256);
  std::ofstream(options_.binary, std::ios::binary) << bytes;
  make();
  start();
  ASSERT_TRUE(until("0 said ready"));
  EXPECT_TRUE(told_.has("0 progress sending 3.0 MB"));
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(sshd->home() + "/.cache/muster")) {
    if (entry.is_regular_file()) files.push_back(contents(entry.path()));
  }
  ASSERT_EQ(files.size(), 1U);
  EXPECT_TRUE(files[0] == bytes);
  start("localhost", 1);  // no known key under this name
  EXPECT_TRUE(until("1 failed ssh: host key verification failed"));
  start("127.0.0.1", 2);
  ASSERT_TRUE(until("2 said ready"));
  EXPECT_FALSE(told_.has("2 progress sending"));
  std::filesystem::remove_all(sshd->home() + "/.cache");
}

// It outlives its connection, so all that was ever sent to it is seen.
TEST_F(RealSsh, AnotherVersionIsToldNothing) {
  options_.push = Options::Push::kNever;
  dir_.script("muster", fmt::format("echo muster-agent 7.0 3; cat >{}; echo over >{}", dir_ / "got", dir_ / "over"));
  make();
  start();
  EXPECT_THAT(failure(), HasSubstr("muster 7.0 is there"));
  ASSERT_TRUE(run_until(loop_, [&] { return contents(dir_ / "over") == "over\n"; }));
  EXPECT_EQ(contents(dir_ / "got"), "");
}

TEST_F(RealSsh, ALargeDescriptionArrivesWhole) {
  dir_.script("muster", fmt::format("echo {}; head -c 4000000 | wc -c >&2; read more", trim(agent_greeting())));
  make();
  starter_->start(0, {"127.0.0.1", {}}, std::string(4'000'000, 'x'));
  EXPECT_TRUE(until("0 said 4000000"));
}

TEST_F(RealSsh, TheEndOfAnAgent) {
  dir_.script("muster",
              fmt::format("echo {}; head -c 12 >/dev/null; echo refused >&2; exit 125", trim(agent_greeting())));
  make();
  start();
  EXPECT_EQ(failure(), "the agent ended: exit code 125 (refused)");
}

TEST_F(RealSsh, AConnectionThatIsCut) {
  dir_.script("muster",
              fmt::format("echo {}; head -c 12 >/dev/null; echo $PPID >&2; read more", trim(agent_greeting())));
  make();
  start();
  ASSERT_TRUE(until("0 said"));
  // The sshd of the session: the agent's parent, since every shell between has executed the next.
  kill(static_cast<pid_t>(*parse_int(told_.lines.back().substr(7))), SIGKILL);
  std::string why = failure();
  EXPECT_THAT(why, ::testing::AnyOf("ssh: connection closed by the other side (again)", "ssh: connection lost (again)",
                                    "ssh: connection reset (again)"));
}

TEST_F(RealSsh, NotLetIn) {
  for (std::string& option : options_.options) {
    if (option.starts_with("IdentityFile=")) option = "IdentityFile=" + sshd->dir() / "stranger_key";
  }
  make();
  start();
  EXPECT_THAT(failure(), HasSubstr("ssh: permission denied (publickey); ssh must get in without a password"));
}

TEST_F(RealSsh, AHostKeyThatChanged) {
  std::string key = contents(sshd->dir() / "stranger_key.pub");
  std::ofstream(dir_ / "known_hosts") << "[127.0.0.1]:" << sshd->port() << " " << key;
  options_.options.insert(options_.options.begin(), "UserKnownHostsFile=" + dir_ / "known_hosts");
  make();
  start();
  EXPECT_THAT(failure(), HasSubstr("ssh: the host key has changed"));
}

TEST_F(RealSsh, NobodyListens) {
  options_.options[0] = "Port=1";
  make();
  start();
  EXPECT_EQ(failure(), "ssh: connection refused (again)");
}

TEST_F(RealSsh, AnOptionThatSshDoesNotKnow) {
  options_.options.emplace_back("Foo=1");
  make();
  start();
  EXPECT_EQ(failure(), "ssh: command-line: line 0: Bad configuration option: foo");
}

TEST_F(RealSsh, AServerThatSaysNothing) {
  Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  options_.options[0] = fmt::format("Port={}", ntohs(address.sin_port));
  options_.connect_timeout = 1s;
  make();
  start();
  EXPECT_EQ(failure(), "ssh: connection timed out (again)");
}

TEST_F(RealSsh, ManyAtOnce) {
  constexpr int kAgents = 12;
  options_.at_a_time = 4;
  dir_.script("muster", agent_script());
  make();
  for (int i = 0; i < kAgents; ++i) start("127.0.0.1", i);
  ASSERT_TRUE(run_until(
      loop_,
      [&] {
        int ready = 0;
        for (int i = 0; i < kAgents; ++i) ready += told_.has(fmt::format("{} said ready", i)) ? 1 : 0;
        return ready == kAgents;
      },
      60s));
}

}  // namespace
}  // namespace muster::cluster::ssh
