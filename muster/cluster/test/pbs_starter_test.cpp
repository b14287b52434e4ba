#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "helpers.h"
#include "muster/base/strings.h"
#include "muster/cluster/pbs/starter.h"
#include "muster/cluster/pbs/tools.h"

namespace muster::cluster::pbs {
namespace {

using namespace std::chrono_literals;
using test::contents;
using test::run_until;
using ::testing::HasSubstr;

// --- Where the commands are -----------------------------------------------------------------------------------------

Tools tools(const std::set<std::string>& programs, const std::string& conf = "", const std::string& exec = "") {
  auto getenv = [&](const std::string& name) {
    return name == "PBS_EXEC" && !exec.empty() ? std::optional(exec) : std::nullopt;
  };
  auto find = [&](const std::string& name) -> Result<std::string> {
    if (!programs.contains(name)) return Error{ErrorKind::kNotFound, name, {}};
    return name.front() == '/' ? name : "/on/path/" + name;
  };
  auto read = [&](const std::string& path) -> Result<std::string> {
    if (path != "/etc/pbs.conf" || conf.empty()) return system_error(ENOENT, path);
    return conf;
  };
  return find_tools(getenv, find, read);
}

TEST(PbsTools, OnPathElseWherePbsIs) {
  EXPECT_THAT(tools({}).paths, ::testing::IsEmpty());
  EXPECT_EQ(tools({}).words, "ssh");
  EXPECT_NE(tools({}).warning, "");
  const Tools both = tools({"pbs_tmrsh", "/opt/pbs/bin/pbs_tmrsh", "/opt/pbs/bin/pbs_attach"});
  EXPECT_EQ(both.path("pbs_tmrsh"), "/on/path/pbs_tmrsh");
  EXPECT_EQ(both.path("pbs_attach"), "/opt/pbs/bin/pbs_attach");
  EXPECT_EQ(both.words, "pbs_tmrsh");
  EXPECT_EQ(both.warning, "");
  EXPECT_EQ(tools({"/usr/pbs/bin/pbs_tmrsh", "/opt/pbs/bin/pbs_tmrsh"}, "PBS_SERVER=p0\nPBS_EXEC=/usr/pbs\n")
                .path("pbs_tmrsh"),
            "/usr/pbs/bin/pbs_tmrsh");
  EXPECT_EQ(tools({"/a/bin/pbs_attach"}, "", "/a").path("pbs_attach"), "/a/bin/pbs_attach");
}

TEST(PbsTools, Conf) {
  EXPECT_EQ(pbs_exec(""), "");
  EXPECT_EQ(pbs_exec("# PBS_EXEC=/no\nPBS_EXEC=/old\n PBS_EXEC=/opt/pbs \nPBS_HOME=/var/spool/pbs"), "/opt/pbs");
}

// --- What went wrong ------------------------------------------------------------------------------------------------

std::string tmrsh(int code, std::string_view line = "", int signal = 0) {
  const StartFailure failure = explain_tmrsh({.code = code, .signal = signal}, line, "/opt/muster");
  return failure.why.text() + (failure.may_try_again ? " (again)" : "");
}

TEST(PbsFailure, ExitCodesOfPbsTmrsh) {
  EXPECT_EQ(tmrsh(255, "/opt/pbs/bin/pbs_tmrsh: host \"p3\" is not a node in job <2.p0>"),
            "pbs_tmrsh: host \"p3\" is not a node in job <2.p0>");
  EXPECT_EQ(tmrsh(255, "pbs_tmrsh: tm_init: system error - MOM cannot be contacted (17000)"),
            "pbs_tmrsh: tm_init: system error - MOM cannot be contacted (17000) (again)");
  EXPECT_EQ(tmrsh(255, "pbs_tmrsh: cannot find PBS_NODEFILE"), "pbs_tmrsh: cannot find PBS_NODEFILE");
  EXPECT_EQ(tmrsh(255), "pbs_tmrsh failed; the job's error file says why (again)");
  EXPECT_EQ(
      tmrsh(254),
      "PBS cannot execute /opt/muster there; it must be under the same path on every node; the job's error file says "
      "why");
  EXPECT_EQ(tmrsh(125), "the agent ended: exit code 125; the job's error file says why");
  EXPECT_EQ(tmrsh(9), "the agent ended: SIGKILL (signal 9) (again)") << "256 + 9";
  EXPECT_EQ(tmrsh(2), "the agent ended: exit code 2; the job's error file says why");
  EXPECT_EQ(tmrsh(0, "", 15), "pbs_tmrsh ended: SIGTERM (signal 15) (again)");
  // What the job is to run is not there: the job's exit code.
  EXPECT_EQ(explain_tmrsh({.code = 127}, "", "/opt/muster").why.kind, ErrorKind::kNotFound);
  EXPECT_EQ(explain_tmrsh({.code = 126}, "", "/opt/muster").why.kind, ErrorKind::kNotExecutable);
}

TEST(PbsFailure, OfPbsAttach) {
  EXPECT_EQ(explain_attach(1, "banner\npbs_attach: tm_attach: no matching job found (17003)\n")->why.message,
            "pbs_attach: tm_attach: no matching job found (17003)");
  EXPECT_EQ(explain_attach(127, "bash: line 1: /opt/pbs/bin/pbs_attach: No such file or directory\n")->cause,
            StartCause::kScheduler);
  auto missing = explain_attach(255, "/opt/muster: No such file or directory\n");
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->cause, StartCause::kProgram);
  EXPECT_EQ(missing->why.message, "No such file or directory");
  EXPECT_FALSE(explain_attach(255, "ssh: connect to host p2 port 22: Connection refused\n"));
  EXPECT_FALSE(explain_attach(255, ""));
  EXPECT_FALSE(explain_attach(127, "bash: line 1: /opt/muster: No such file or directory\n"));
}

TEST(PbsEnvironment, OfAnotherNode) {
  Environment environment = {{"A", "1"}, {"PBS_NODENUM", "0"}, {"PBS_TASKNUM", "1"}, {"PBS_NODEFILE", "/x"}};
  move_to_node(environment, 3);
  EXPECT_EQ(environment, (Environment{{"A", "1"}, {"PBS_NODENUM", "3"}}));
}

// --- Starting -------------------------------------------------------------------------------------------------------

class PbsStarterTest : public ::testing::Test {
 protected:
  // Position 0 is here; `tool` is what pbs_tmrsh does.
  void make(const std::string& tool, Duration answer_timeout = 60s) {
    Options options;
    options.program = dir_.script("muster", "read line; echo here $line >&2; read more");
    options.fetch = {.endpoints = {"10.0.0.1:4711"}, .nonce = "abcd", .munge = false};
    options.job_id = "2.p0";
    options.here = 0;
    options.tools.paths["pbs_tmrsh"] = dir_.script("pbs_tmrsh", tool);
    options.answer_timeout = answer_timeout;
    starter_ = make_starter(loop_, options, {{"PATH", "/usr/bin:/bin"}, {"DIR", dir_.path()}}, told_.handlers());
  }
  bool until(const std::string& start) {
    return run_until(loop_, [&] { return told_.has(start); });
  }

  test::TempDir dir_;
  net::EventLoop loop_;
  test::Told told_;
  std::unique_ptr<Starter> starter_;
};

TEST_F(PbsStarterTest, OurOwnNodeIsAChildAndIsToldOnStdin) {
  make("echo other >>$DIR/log");
  starter_->start(0, {"p1", {}}, "secret\n");
  EXPECT_TRUE(until("0 said here secret"));
  EXPECT_EQ(contents(dir_ / "log"), "");
}

TEST_F(PbsStarterTest, OthersFetchTheirs) {
  make("echo \"$@\" >>$DIR/log; env >>$DIR/log; cat >>$DIR/log; echo ready >>$DIR/log; exec sleep 600");
  starter_->start(1, {"p2", {}}, "on stdin\n");
  ASSERT_TRUE(run_until(loop_, [&] { return contents(dir_ / "log").ends_with("ready\n"); }));
  EXPECT_THAT(contents(dir_ / "log"),
              ::testing::StartsWith("p2 " + (dir_ / "muster") + " agent --fetch 10.0.0.1:4711 --nonce abcd"));
  EXPECT_THAT(contents(dir_ / "log"), HasSubstr("--name p2\n"));
  EXPECT_THAT(contents(dir_ / "log"), ::testing::Not(HasSubstr("on stdin")));
  EXPECT_TRUE(told_.has("1 progress requested"));
  starter_->asked(1);
  EXPECT_TRUE(told_.has("1 progress starting"));
}

TEST_F(PbsStarterTest, ItsFailureIsExplained) {
  make("echo \"$0: host \\\"$1\\\" is not a node in job <2.p0>\" >&2; exit 255");
  starter_->start(1, {"p9", {}}, "");
  ASSERT_TRUE(until("1 failed"));
  EXPECT_EQ(told_.lines.back(), "1 failed pbs_tmrsh: host \"p9\" is not a node in job <2.p0>");
  starter_->start(1, {"p9", {}}, "");  // may be called again
  ASSERT_TRUE(run_until(loop_, [&] { return told_.lines.size() == 4; }));
}

TEST_F(PbsStarterTest, OneThatNeverAnswers) {
  make("exec sleep 600", 50ms);
  starter_->start(1, {"p2", {}}, "");
  ASSERT_TRUE(until("1 failed"));
  EXPECT_THAT(told_.lines.back(), HasSubstr("pbs_tmrsh has brought no agent within 0 s"));
  EXPECT_THAT(told_.lines.back(), HasSubstr("(again)"));
}

TEST_F(PbsStarterTest, WhoHasAskedMayTakeItsTime) {
  make("until test -e $DIR/end; do sleep 0.01; done; exit 125", 50ms);
  starter_->start(1, {"p2", {}}, "");
  starter_->asked(1);
  bool late = false;
  loop_.call_after(150ms, [&] { late = true; });
  ASSERT_TRUE(run_until(loop_, [&] { return late; }));
  EXPECT_FALSE(told_.has("1 failed"));
  dir_.script("end", "");
  ASSERT_TRUE(until("1 failed"));
  EXPECT_EQ(told_.lines.back(), "1 failed the agent ended: exit code 125; the job's error file says why");
}

TEST_F(PbsStarterTest, AnAbandonedOneSaysNothingMore) {
  make("echo $$ >$DIR/pid; exec sleep 600", 50ms);
  starter_->start(1, {"p2", {}}, "");
  ASSERT_TRUE(run_until(loop_, [&] { return contents(dir_ / "pid").ends_with("\n"); }));
  const pid_t pid = std::stoi(contents(dir_ / "pid"));
  starter_->abandon(1);
  EXPECT_EQ(::kill(pid, 0), -1) << "pbs_tmrsh is gone";
  bool late = false;
  loop_.call_after(100ms, [&] { late = true; });
  ASSERT_TRUE(run_until(loop_, [&] { return late; }));
  EXPECT_FALSE(told_.has("1 failed"));
}

TEST_F(PbsStarterTest, WithoutPbsTmrshOverSshAndAttached) {
  Options options;
  options.program = "/opt/muster";
  options.job_id = "7[3].p0";
  options.tools.paths["pbs_attach"] = "/opt/pbs/bin/pbs_attach";
  options.ssh.ssh = dir_.script("ssh", "echo \"$@\" >$DIR/log; echo 'pbs_attach: tm_attach: bad (1)' >&2; exit 1");
  starter_ = make_starter(loop_, options, {{"PATH", "/usr/bin:/bin"}, {"DIR", dir_.path()}}, told_.handlers());
  starter_->start(1, {"p2", {}}, "secret");
  ASSERT_TRUE(until("1 failed"));
  EXPECT_THAT(contents(dir_ / "log"), HasSubstr("-- p2 /opt/pbs/bin/pbs_attach -j '7[3].p0' /opt/muster agent\n"));
  EXPECT_THAT(told_.lines.back(), HasSubstr("1 failed pbs_attach: tm_attach: bad (1)"));
}

}  // namespace
}  // namespace muster::cluster::pbs
