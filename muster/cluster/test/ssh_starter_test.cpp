// The starter with a program in place of ssh that runs the remote command here, in a home of its own for each host.

#include "muster/cluster/ssh/starter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "helpers.h"
#include "muster/base/strings.h"
#include "muster/cluster/description.h"

namespace muster::cluster::ssh {
namespace {

using test::contents;
using test::run_until;
using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kToken = "c0ffee-token";

// $host and "$@", the remote command, in its home.
constexpr const char* kFakeSsh = R"(
echo "$@" >>$DIR/log
env >>$DIR/env
while [ "$1" != -- ]; do shift; done
host=$2
shift 2
mkdir -p $DIR/$host
cd $DIR/$host
. $DIR/behaviour
exec sh -c "$*"
)";

// Greets, takes what it is told, says so, and waits for the end of stdin.
std::string agent_script(const std::string& greeting = agent_greeting()) {
  return "printf '" + std::string(trim(greeting)) + "\\n'; head -c 12 >$DIR/got; echo ready >&2; read more; exit 3\n";
}

class SshStarterTest : public ::testing::Test {
 protected:
  SshStarterTest() {
    options_.ssh = dir_.script("bin/fake-ssh", kFakeSsh);
    options_.program = dir_ / "own/muster";
    options_.binary = dir_.script("binary", agent_script());
    behave("");
  }
  void behave(const std::string& script) { std::ofstream(dir_ / "behaviour") << script; }
  void make() {
    starter_ =
        make_starter(loop_, options_, {{"PATH", dir_ / "bin:/usr/bin:/bin"}, {"DIR", dir_.path()}}, told_.handlers());
  }
  void start(const std::string& host = "n1", int position = 0) { starter_->start(position, {host, {}}, kToken); }
  bool until(const std::string& line) {
    return run_until(loop_, [&] { return told_.has(line); });
  }
  std::string failure() {
    EXPECT_TRUE(until("0 failed"));
    return told_.lines.empty() ? "" : told_.lines.back().substr(9);
  }
  // What was run on the other side, each as its first words.
  std::vector<std::string> commands() {
    std::vector<std::string> result;
    std::string log = contents(dir_ / "log");
    for (std::string_view line : split(trim(log), '\n')) {
      std::string_view remote = line.substr(line.find(" -- ") + 4);
      result.emplace_back(remote.substr(remote.find(' ') + 1));
    }
    return result;
  }

  test::TempDir dir_;
  net::EventLoop loop_;
  test::Told told_;
  Options options_;
  std::unique_ptr<Starter> starter_;
};

TEST_F(SshStarterTest, TheProgramAtOurOwnPath) {
  dir_.script("own/muster", agent_script());
  make();
  start();
  ASSERT_TRUE(until("0 said ready"));
  EXPECT_EQ(contents(dir_ / "got"), kToken);
  EXPECT_THAT(told_.lines, ElementsAre("0 progress connecting", "0 progress starting", "0 said ready"));
  EXPECT_THAT(commands(), ElementsAre(options_.program + " agent"));
}

TEST_F(SshStarterTest, TheTokenIsInNoArgumentAndNoVariable) {
  make();
  start();
  ASSERT_TRUE(until("0 said ready"));
  EXPECT_THAT(contents(dir_ / "log"), Not(HasSubstr(kToken)));
  EXPECT_THAT(contents(dir_ / "env"), Not(HasSubstr(kToken)));
}

TEST_F(SshStarterTest, AHostWithoutMusterGetsItOnce) {
  make();
  start();
  ASSERT_TRUE(until("0 said ready"));
  EXPECT_EQ(contents(dir_ / "got"), kToken);
  EXPECT_TRUE(told_.has("0 progress sending 0.0 MB"));
  EXPECT_THAT(commands(), ElementsAre(StartsWith(options_.program), StartsWith("chmod 700 .cache/muster "),
                                      StartsWith("mkdir -p -m 700 .cache "), StartsWith("chmod 700 .cache/muster "),
                                      StartsWith("dd of="), StartsWith("sha256sum "), StartsWith("chmod 700 "),
                                      StartsWith("mv -f "), StartsWith(".cache/muster/")));
  std::filesystem::remove(dir_ / "log");
  start("n1", 1);
  ASSERT_TRUE(until("1 said ready"));
  EXPECT_THAT(commands(), ElementsAre(StartsWith(options_.program), StartsWith("chmod 700 .cache/muster "),
                                      StartsWith("sha256sum .cache/muster/"), StartsWith(".cache/muster/")));
}

// As with umask 002, or after an earlier version of muster.
TEST_F(SshStarterTest, OthersCannotWriteWhereTheProgramIsKept) {
  namespace fs = std::filesystem;
  behave("umask 002");
  make();
  start();
  ASSERT_TRUE(until("0 said ready"));
  for (const char* name : {"n1/.cache", "n1/.cache/muster"})
    EXPECT_EQ(fs::status(dir_ / name).permissions(), fs::perms::owner_all) << name;
  for (const auto& entry : fs::recursive_directory_iterator(dir_ / "n1/.cache"))
    EXPECT_EQ(entry.status().permissions(), fs::perms::owner_all) << entry.path();

  fs::permissions(dir_ / "n1/.cache/muster", fs::perms::all);
  start("n1", 1);
  ASSERT_TRUE(until("1 said ready"));
  EXPECT_EQ(fs::status(dir_ / "n1/.cache/muster").permissions(), fs::perms::owner_all);
}

TEST_F(SshStarterTest, AProgramThatWasReplacedThereDoesNotRun) {
  make();
  start();
  ASSERT_TRUE(until("0 said ready"));
  std::string kept;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "n1/.cache"))
    if (entry.is_regular_file()) kept = entry.path();
  const std::string good = contents(kept);
  std::filesystem::remove(kept);
  dir_.script(kept.substr(dir_.path().size() + 1), "touch $DIR/ran\n" + agent_script());
  start("n1", 1);
  ASSERT_TRUE(until("1 said ready"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "ran"));
  EXPECT_TRUE(told_.has("1 progress replacing"));
  EXPECT_EQ(contents(kept), good);
}

TEST_F(SshStarterTest, AProgramOfAnotherUserDoesNotRun) {
  make();
  start();
  ASSERT_TRUE(until("0 said ready"));
  behave("case $1 in chmod) echo \"chmod: changing permissions of '$3': Operation not permitted\" >&2; exit 1;; esac");
  start("n1", 1);
  ASSERT_TRUE(until("1 failed"));
  EXPECT_THAT(told_.lines.back(), HasSubstr("cannot be sent (chmod: changing permissions of '.cache/muster': "));
}

TEST_F(SshStarterTest, AnotherVersionIsNotTrusted) {
  dir_.script("own/muster", "echo muster-agent 7.0 3; cat >$DIR/stolen");
  make();
  start();
  ASSERT_TRUE(until("0 said ready"));
  EXPECT_EQ(contents(dir_ / "got"), kToken);
  EXPECT_EQ(contents(dir_ / "stolen"), "");
}

TEST_F(SshStarterTest, WhatDoesNotGreetIsToldNothing) {
  dir_.script("own/muster", "echo hello; cat >$DIR/stolen");
  options_.connect_timeout = 100ms;
  options_.answer_timeout = 100ms;
  make();
  start();
  EXPECT_EQ(failure(), "ssh: no answer within 0 s (again)");
  EXPECT_EQ(contents(dir_ / "stolen"), "");
}

TEST_F(SshStarterTest, LoginScriptsMaySpeakFirst) {
  behave("echo Welcome to $host; echo quota exceeded >&2");
  make();
  start();
  ASSERT_TRUE(until("0 said ready"));
  EXPECT_FALSE(told_.has("0 said quota"));
}

TEST_F(SshStarterTest, AlwaysPushNeverTriesOurPath) {
  dir_.script("own/muster", agent_script());
  options_.push = Options::Push::kAlways;
  make();
  start();
  ASSERT_TRUE(until("0 said ready"));
  EXPECT_THAT(commands(), Not(Contains(StartsWith(options_.program))));
}

TEST_F(SshStarterTest, NeverPush) {
  dir_.script("own/muster", "echo muster-agent 7.0 3");
  options_.push = Options::Push::kNever;
  make();
  start();
  EXPECT_THAT(failure(), HasSubstr("there (" + options_.program + ": muster 7.0 is there, "));
  EXPECT_EQ(told_.failures.back().cause, StartCause::kOtherVersion);
  EXPECT_FALSE(told_.failures.back().may_try_again);
  EXPECT_THAT(commands(), ElementsAre(StartsWith(options_.program), StartsWith("chmod 700 .cache/muster ")));
}

TEST_F(SshStarterTest, WhatArrivesDamagedIsRemoved) {
  behave("case $1 in sha256sum) echo 0000 $2; exit;; esac");
  make();
  start();
  EXPECT_EQ(failure(), "the program cannot be sent (what arrived there differs from what was sent)");
  EXPECT_THAT(commands().back(), StartsWith("rm -f .cache/muster/"));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "n1")) {
    EXPECT_TRUE(entry.is_directory()) << entry.path();
  }
}

TEST_F(SshStarterTest, ADiskThatIsFull) {
  behave(
      "case $1 in dd) echo \"dd: error writing 'x': No space left on device\" >&2; echo 1+0 records in >&2; exit 1;; "
      "esac");
  make();
  start();
  EXPECT_EQ(failure(), "the program cannot be sent (dd: error writing 'x': No space left on device)");
}

TEST_F(SshStarterTest, AHomeThatCannotBeWritten) {
  behave("case $1 in mkdir) echo 'mkdir: cannot create directory: Permission denied' >&2; exit 1;; esac");
  make();
  start();
  EXPECT_EQ(failure(), "the program cannot be sent (mkdir: cannot create directory: Permission denied)");
}

TEST_F(SshStarterTest, AProgramForAnotherMachine) {
  dir_.script("binary", "echo 'cannot execute binary file: Exec format error' >&2; exit 126");
  make();
  start();
  EXPECT_EQ(failure(), "the program was sent, but does not run there: cannot be executed");
}

TEST_F(SshStarterTest, TriedAgainWhenItMayPass) {
  behave("echo \"ssh: connect to host $host port 22: Connection refused\" >&2; exit 255");
  make();
  start();
  EXPECT_EQ(failure(), "ssh: connection refused (again)");
  dir_.script("own/muster", agent_script());
  behave("");
  start();
  ASSERT_TRUE(until("0 said ready"));
}

TEST_F(SshStarterTest, AnAgentThatEndsBeforeItJoinsHasSaidWhy) {
  dir_.script("own/muster", "printf '" + std::string(trim(agent_greeting())) +
                                "\\n'; head -c 12 >/dev/null; echo 'wrong token' >&2; exit 125");
  make();
  start();
  EXPECT_EQ(failure(), "the agent ended: exit code 125 (wrong token)");
  EXPECT_TRUE(told_.has("0 said wrong token"));
}

TEST_F(SshStarterTest, AConnectionThatIsLost) {
  dir_.script("own/muster",
              "printf '" + std::string(trim(agent_greeting())) +
                  "\\n'; head -c 12 >/dev/null; echo up >&2; while [ ! -e $DIR/cut ]; do sleep 0.01; done; "
                  "echo 'client_loop: send disconnect: Broken pipe' >&2; exit 255");
  make();
  start();
  ASSERT_TRUE(until("0 said up"));
  starter_->joined(0);
  std::ofstream(dir_ / "cut") << "x";
  EXPECT_EQ(failure(), "ssh: connection lost (again)");
  EXPECT_FALSE(told_.has("0 said client_loop"));
}

TEST_F(SshStarterTest, OneThatIsAbandonedMaySayWhy) {
  dir_.script("own/muster",
              "printf '" + std::string(trim(agent_greeting())) +
                  "\\n'; head -c 12 >/dev/null; echo up >&2; while [ ! -e $DIR/cut ]; do sleep 0.01; done; "
                  "echo 'the agent was killed' >&2; exit 125");
  make();
  start();
  ASSERT_TRUE(until("0 said up"));
  starter_->joined(0);
  starter_->abandon(0);
  told_.lines.clear();
  start();  // its successor
  ASSERT_TRUE(until("0 said up"));
  starter_->joined(0);
  starter_->abandon(0);
  std::ofstream(dir_ / "cut") << "x";
  ASSERT_TRUE(until("0 said the agent was killed"));
  EXPECT_FALSE(told_.has("0 failed"));
}

TEST_F(SshStarterTest, NoSsh) {
  options_.ssh = "no-such-ssh";
  make();
  start();
  EXPECT_TRUE(!told_.has("0 failed")) << "told from the loop only";
  EXPECT_THAT(failure(), HasSubstr("no-such-ssh"));
  EXPECT_EQ(told_.failures.back().cause, StartCause::kThisMachine);
}

// Each start writes its mark before it looks at how many there are, each answer takes its mark away before it comes.
TEST_F(SshStarterTest, OnlySoManyHandshakesAtATime) {
  constexpr int kHosts = 12;
  options_.at_a_time = 3;
  dir_.script("own/muster", agent_script());
  behave(
      "mkdir -p $DIR/shaking; touch $DIR/shaking/$host; ls $DIR/shaking | wc -l >>$DIR/counts\n"
      "while [ ! -e $DIR/go.$host ]; do sleep 0.01; done; rm $DIR/shaking/$host\n");
  make();
  for (int i = 0; i < kHosts; ++i) start(fmt::format("n{}", i), i);
  auto shaking = [&](int i) { return std::filesystem::exists(fmt::format("{}/shaking/n{}", dir_.path(), i)); };
  ASSERT_TRUE(run_until(loop_, [&] { return shaking(0) && shaking(1) && shaking(2); }));
  EXPECT_FALSE(shaking(3));
  // The second one answers: only then comes the fourth.
  std::ofstream(dir_ / "go.n1") << "x";
  ASSERT_TRUE(run_until(loop_, [&] { return shaking(3); }));
  for (int i = 0; i < kHosts; ++i) std::ofstream(fmt::format("{}/go.n{}", dir_.path(), i)) << "x";
  ASSERT_TRUE(run_until(loop_, [&] {
    int ready = 0;
    for (int i = 0; i < kHosts; ++i) ready += told_.has(fmt::format("{} said ready", i)) ? 1 : 0;
    return ready == kHosts;
  }));
  std::string counts = contents(dir_ / "counts");
  for (std::string_view count : split(trim(counts), '\n')) EXPECT_LE(*parse_int(trim(count)), 3);
}

TEST_F(SshStarterTest, TheEndOfTheStarterIsTheEndOfSsh) {
  dir_.script("own/muster", agent_script());
  behave("echo $$ >$DIR/pid.$host; sleep 1000 & echo $! >$DIR/proxy.$host");
  make();
  start("n1", 0);
  start("n2", 1);
  ASSERT_TRUE(until("0 said ready") && until("1 said ready"));
  starter_.reset();
  for (const char* name : {"pid.n1", "pid.n2"}) {
    EXPECT_EQ(kill(static_cast<pid_t>(*parse_int(trim(contents(dir_ / name)))), 0), -1) << name;
  }
  // What ssh had started, a ProxyCommand say, is killed too; somebody else reaps it.
  std::string stat = "/proc/" + std::string(trim(contents(dir_ / "proxy.n1"))) + "/stat";
  EXPECT_TRUE(run_until(loop_, [&] {
    std::string text = contents(stat);
    return text.empty() || text.find(") Z") != std::string::npos;
  }));
}

}  // namespace
}  // namespace muster::cluster::ssh
