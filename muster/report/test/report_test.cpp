#include "muster/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "muster/report/publication.h"
#include "muster/report/test/outcomes.h"
#include "muster/report/words.h"

namespace muster::report {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;
using testing::Not;

const std::string kGlooReset =
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:";

Report slow_atexit() {
  Worker root = Worker(1, exited(1), 12.34).raised(11, "ValueError: bad batch");
  root.outcome.stderr_log = "/logs/1/stderr.log";
  Report report = report_of({Worker(0, exited(1), 12).raised(11.5, kGlooReset + "4242"), root,
                             Worker(2, exited(1), 12).raised(11.5, kGlooReset + "4711"),
                             Worker(3, killed(SIGTERM), 12.5).stopped(12), Worker(4, killed(SIGTERM), 12.5).stopped(12),
                             Worker(5, exited(0), 3)});
  report.restarts = report.max_restarts = 3;
  return report;
}

TEST(Render, TellsItAtOnce) {
  EXPECT_EQ(render(slow_atexit(), false),
            "muster: train.py failed: rank 1 (local rank 1, pid 4001) on n1: exit code 1 after 12.3 s\n"
            "  ValueError: bad batch\n"
            "  last lines of its stderr:\n"
            "    Traceback (most recent call last):\n"
            "      File \"train.py\", line 3, in <module>\n"
            "    ValueError: bad batch\n"
            "  log      /logs/1/stderr.log\n"
            "  command  python -u train.py --lr 0.1\n"
            "  others   ranks 0, 2: failed because a peer was gone (exit code 1: Connection closed by peer)\n"
            "           ranks 3-4: stopped by muster (SIGTERM)\n"
            "           rank 5: succeeded (exit code 0)\n"
            "  restarts 3 of 3 used\n");
}

TEST(Render, ColourChangesNothingElse) {
  Report report = slow_atexit();
  std::string painted = render(report, true), plain;
  EXPECT_THAT(painted, HasSubstr("\x1b[1;31m"));
  for (size_t i = 0; i < painted.size(); ++i) {
    if (painted[i] == '\x1b')
      i = painted.find('m', i);
    else
      plain += painted[i];
  }
  EXPECT_EQ(plain, render(report, false));
  const std::string bright = with_bright_headline(plain);
  EXPECT_EQ(bright.substr(0, bright.find('\n')), painted.substr(0, painted.find('\n')));
  EXPECT_EQ(bright.substr(bright.find('\n')), plain.substr(plain.find('\n')));
}

TEST(Render, ASilentEnd) {
  EXPECT_EQ(render(report_of({Worker(0, exited(7), 0.5)}), false),
            "muster: train.py failed: rank 0 (local rank 0, pid 4000) on n1: exit code 7 after 0.50 s\n"
            "  it wrote nothing to stderr\n"
            "  command  python -u train.py --lr 0.1\n");
}

TEST(Render, ExplainsSignals) {
  auto headline = [](Worker worker) {
    std::string text = render(report_of({std::move(worker)}), false);
    return text.substr(0, text.find('\n'));
  };
  EXPECT_THAT(headline(Worker(0, killed(SIGKILL), 1)), HasSubstr("SIGKILL: killed from outside, not by muster"));
  EXPECT_THAT(headline(Worker(0, killed(SIGKILL), 1).oom(process::OomVerdict::kYes)),
              HasSubstr("out of memory (the job's own memory limit)"));
  EXPECT_THAT(headline(Worker(0, killed(SIGKILL), 1).oom(process::OomVerdict::kPossibly)),
              HasSubstr("possibly out of memory (the host killed something for memory at that time)"));
  EXPECT_THAT(headline(Worker(0, killed(SIGSEGV), 1)), HasSubstr("SIGSEGV: invalid memory access after 1.00 s"));
  EXPECT_THAT(headline(Worker(0, killed(SIGUSR1), 1)), HasSubstr(": SIGUSR1 after"));
  EXPECT_THAT(headline(Worker(0, killed(SIGTERM), 2).raised(1, "ValueError: x").stopped(1.5)),
              HasSubstr("failed, and SIGTERM by muster while it was still ending after 2.00 s"));
}

TEST(Render, ASignalThatWePassedOnIsWhatItIs) {
  Report report = report_of({Worker(0, killed(SIGUSR1), 2).passed_on().stopped(2).wrote("epoch 1\n"),
                             Worker(1, killed(SIGUSR1), 2).passed_on(), Worker(2, killed(SIGTERM), 3).stopped(2)});
  EXPECT_EQ(report.exit_code, 138);
  EXPECT_EQ(render(report, false),
            "muster: train.py failed: muster received SIGUSR1 and passed it on; ranks 0-1 have no handler for it\n"
            "  command  python -u train.py --lr 0.1\n"
            "  others   rank 2: stopped by muster (SIGTERM)\n");
  EXPECT_THAT(to_json(report), HasSubstr("\"message\": \"train.py failed: muster received SIGUSR1 and passed it on; "));
  EXPECT_THAT(to_json(report), HasSubstr("\"blame\": \"passed-on\""));
}

TEST(Render, TheErrorFileSpeaksWhenStderrDoesNot) {
  Worker worker = Worker(0, exited(1), 5).filed(4, "ValueError: bad batch");
  worker.outcome.error_file->callstack = "Traceback (most recent call last):\n  File \"a\"\nValueError: bad batch\n";
  EXPECT_EQ(render(report_of({worker}), false),
            "muster: train.py failed: rank 0 (local rank 0, pid 4000) on n1: exit code 1 after 5.00 s\n"
            "  ValueError: bad batch\n"
            "  its call stack:\n"
            "    Traceback (most recent call last):\n"
            "      File \"a\"\n"
            "    ValueError: bad batch\n"
            "  error    /logs/0/error.json\n"
            "  command  python -u train.py --lr 0.1\n");
}

TEST(Render, ShowsTwentyLinesAtMostAndNoControlBytes) {
  std::string noise;
  for (int i = 0; i < 100; ++i) noise += "line " + std::to_string(i) + "\n";
  std::string text = render(report_of({Worker(0, exited(1), 1).wrote(noise + "\x1b[31mred\x1b[0m \0 \xff\n"s)}), false);
  EXPECT_THAT(text, HasSubstr("    line 81\n"));
  EXPECT_THAT(text, Not(HasSubstr("line 80\n")));
  EXPECT_THAT(text, HasSubstr("    red \\x00 \uFFFD\n"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(Render, OtherFailuresOfTheirOwn) {
  std::string text = render(report_of({Worker(0, exited(3), 1), Worker(1, killed(SIGSEGV), 1.5),
                                       Worker(2, exited(1), 1.6).raised(1.5, "ValueError: y")}),
                            false);
  EXPECT_THAT(text, HasSubstr("rank 1: failed by itself (SIGSEGV)\n"));
  EXPECT_THAT(text, HasSubstr("rank 2: failed by itself (exit code 1: ValueError: y)\n"));
}

TEST(Render, OutOfMemoryOfAChild) {
  Worker shell = Worker(0, exited(137), 1).oom(process::OomVerdict::kYes);
  EXPECT_THAT(render(report_of({shell}), false),
              HasSubstr(": exit code 137, as a shell reports SIGKILL by the kernel: out of memory (the job's own"));
  Worker loader = Worker(0, exited(1), 1).oom(process::OomVerdict::kYes).raised(0.9, "RuntimeError: DataLoader");
  EXPECT_THAT(
      render(report_of({loader}), false),
      HasSubstr(": exit code 1 after 1.00 s\n  meanwhile the kernel killed a process of the job: out of memory"));
}

TEST(Render, APeerWeStoppedWhileItFell) {
  Report report = report_of({Worker(0, exited(1), 1).raised(0.5, "ValueError: x"),
                             Worker(1, killed(SIGTERM), 1.1).raised(0.9, kGlooReset + "1").stopped(1)});
  EXPECT_THAT(render(report, false), HasSubstr("rank 1: failed because a peer was gone (Connection closed by peer)\n"));
}

TEST(Render, SaysWhoElseMayBeTheCause) {
  Report report =
      report_of({Worker(0, killed(SIGTERM), 1.5).stopped(1), Worker(1, exited(1), 1).raised(0.9, kGlooReset)});
  const std::string doubt =
      "rank 1 failed because a peer was gone; rank 0 was still running then, and may be the cause";
  EXPECT_THAT(render(report, false), HasSubstr("  but      " + doubt + "\n"));
  EXPECT_EQ(nlohmann::json::parse(to_json(report))["doubt"], doubt);
  EXPECT_THAT(render_torchrun(report), Not(HasSubstr("may be the cause")));
  report.lost_nodes = {"n2 is lost: no word for 10.5 s"};
  EXPECT_THAT(render(report, false), Not(HasSubstr("may be the cause")));
}

TEST(Render, StoppedByASignalNamesNoCulprit) {
  Report report = report_of({Worker(0, killed(SIGINT), 2).stopped(1), Worker(1, killed(SIGINT), 2).stopped(1)});
  report.kind = job::Ending::kSignalled;
  report.signal = SIGINT;
  EXPECT_EQ(render(report, false),
            "muster: train.py was stopped: muster received SIGINT\n"
            "  workers  ranks 0-1: stopped by muster (SIGINT)\n");
  report.signalled_host = "n2";
  EXPECT_THAT(render(report, false), HasSubstr("muster: train.py was stopped: n2's muster received SIGINT\n"));
}

TEST(Render, AFailureOfOurOwn) {
  Report report;
  report.kind = job::Ending::kMusterFailed;
  report.entrypoint = "train.py";
  report.message = "rank 1 could not be started: fork: Resource temporarily unavailable";
  EXPECT_EQ(render(report, false),
            "muster: train.py failed: rank 1 could not be started: fork: Resource temporarily unavailable\n");
}

TEST(MakeReport, SaysWhyInputWasNone) {
  using Kind = job::StdinSpec::Kind;
  const std::string note = "rank 1 asked for input and has none; --stdin 1 gives it yours";
  const std::string several =
      "rank 1 asked for input, and in a job of several nodes no worker has any; debug it on one node with --stdin "
      "RANK, "
      "or with a debugger that listens on a port (PYTHONBREAKPOINT=remote_pdb.set_trace)";
  auto note_of = [](const std::string& exception, job::StdinSpec input, bool several_nodes = false) {
    job::JobSpec job;
    job.stdin_spec = input;
    std::vector<WorkerOutcome> workers = {Worker(0, killed(SIGTERM), 3).stopped(2).outcome,
                                          Worker(1, exited(1), 2).raised(1, exception).outcome};
    Verdict verdict = judge(workers);
    return make_report(job, job::Ending::kWorkerFailed, 1, workers, verdict, several_nodes).note;
  };
  for (const char* exception : {"bdb.BdbQuit", "EOFError: EOF when reading a line"}) {
    EXPECT_EQ(note_of(exception, {Kind::kNone, 0}), note);
    EXPECT_EQ(note_of(exception, {Kind::kNone, 0}, true), several);
    EXPECT_EQ(note_of(exception, {Kind::kRank, 0}), note);
    for (job::StdinSpec has :
         {job::StdinSpec{Kind::kRank, 1}, job::StdinSpec{Kind::kAll, 0}, job::StdinSpec{Kind::kInherit, 0}})
      EXPECT_EQ(note_of(exception, has), "");
  }
  EXPECT_EQ(note_of("EOFError: Compressed file ended", {Kind::kNone, 0}), "");
}

TEST(Words, DurationsAndRanks) {
  using std::chrono::milliseconds;
  EXPECT_EQ(duration_text(milliseconds(520)), "0.52 s");
  EXPECT_EQ(duration_text(milliseconds(12'340)), "12.3 s");
  EXPECT_EQ(duration_text(milliseconds(59'990)), "0 min 59 s");
  EXPECT_EQ(duration_text(milliseconds(200'000)), "3 min 20 s");
  EXPECT_EQ(duration_text(milliseconds(7'500'000)), "2 h 05 min");
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({7, 2, 3, 4, 0}), "ranks 0, 2-4, 7");
}

class RenderTorchrun : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TZ", "UTC", 1);
    tzset();
  }
};

TEST_F(RenderTorchrun, AsTorchrunPrintsIt) {
  Worker root(0, exited(7), 23.2), stopped = Worker(1, killed(SIGTERM), 23.4).stopped(23.2);
  for (Worker* worker : {&root, &stopped}) worker->outcome.host = "localhost";
  EXPECT_EQ(render_torchrun(report_of({root, stopped})),
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
            "============================================================\n"
            "train.py FAILED\n"
            "------------------------------------------------------------\n"
            "Failures:\n"
            "[1]:\n"
            "  time      : 2026-11-15_07:34:23\n"
            "  host      : localhost\n"
            "  rank      : 1 (local_rank: 1)\n"
            "  exitcode  : -15 (pid: 4001)  (SIGTERM)\n"
            "  error_file: <N/A>\n"
            "  traceback : Signal 15 (SIGTERM) received by PID 4001\n"
            "------------------------------------------------------------\n"
            "Root Cause (first observed failure):\n"
            "[0]:\n"
            "  time      : 2026-11-15_07:34:23\n"
            "  host      : localhost\n"
            "  rank      : 0 (local_rank: 0)\n"
            "  exitcode  : 7 (pid: 4000) \n"
            "  error_file: <N/A>\n"
            "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
            "============================================================\n");
}

TEST_F(RenderTorchrun, NarrowBoxWithoutOthersAndWithANamelessSignal) {
  EXPECT_EQ(render_torchrun(report_of({Worker(0, killed(40), 1), Worker(1, exited(0), 2)})),
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
            "====================================================\n"
            "train.py FAILED\n"
            "----------------------------------------------------\n"
            "Failures:\n"
            "  <NO_OTHER_FAILURES>\n"
            "----------------------------------------------------\n"
            "Root Cause (first observed failure):\n"
            "[0]:\n"
            "  time      : 2026-11-15_07:34:01\n"
            "  host      : n1\n"
            "  rank      : 0 (local_rank: 0)\n"
            "  exitcode  : -40 (pid: 4000) \n"
            "  error_file: <N/A>\n"
            "  traceback : Signal 40 (<N/A>) received by PID 4000\n"
            "====================================================\n");
}

TEST_F(RenderTorchrun, CallStackIsIndentedAndStoppedOnesComeLast) {
  Worker root = Worker(1, exited(1), 3).filed(2, "ValueError: bad batch ä");
  root.outcome.error_file->callstack = "Traceback (most recent call last):\n  File \"a\"\nValueError: bad batch ä\n";
  Worker plain = Worker(2, exited(2), 3.1).filed(3, "two\nlines");
  plain.outcome.error_file->structured = false;
  std::string text = render_torchrun(report_of({Worker(0, killed(SIGTERM), 4).stopped(3.5), root, plain}));
  EXPECT_THAT(text, HasSubstr("[2]:\n  time      : 2026-11-15_07:34:04\n  host      : n1\n  rank      : 0"));
  EXPECT_THAT(text, HasSubstr("[1]:\n  time      : 2026-11-15_07:34:03\n  host      : n1\n  rank      : 2"));
  EXPECT_THAT(text, HasSubstr("[0]:\n  time      : 2026-11-15_07:34:02\n  host      : n1\n  rank      : 1"));
  EXPECT_THAT(text, HasSubstr("  error_file: /logs/1/error.json\n"
                              "  traceback : Traceback (most recent call last):\n"
                              "    File \"a\"\n"
                              "  ValueError: bad batch ä\n"
                              "  \n"
                              "===="));
  EXPECT_THAT(text, HasSubstr("traceback : two\nlines\n"));
}

TEST(ToJson, HasTheWholeStory) {
  auto json = nlohmann::json::parse(to_json(slow_atexit()));
  EXPECT_EQ(json["kind"], "worker-failed");
  EXPECT_EQ(json["exit_code"], 1);
  EXPECT_EQ(json["message"], "train.py failed: rank 1 on n1: exit code 1");
  EXPECT_EQ(json["command"], nlohmann::json({"python", "-u", "train.py", "--lr", "0.1"}));
  EXPECT_EQ(json["restarts"], 3);
  EXPECT_EQ(json["signal"], nullptr);
  const auto& root = json["root_cause"];
  EXPECT_EQ(root["rank"], 1);
  EXPECT_EQ(root["blame"], "root-cause");
  EXPECT_EQ(root["how"]["exit_code"], 1);
  EXPECT_EQ(root["how"]["signal"], nullptr);
  EXPECT_EQ(root["oom"], "no");
  EXPECT_DOUBLE_EQ(root["seconds"], 12.34);
  EXPECT_EQ(root["exception"], "ValueError: bad batch");
  EXPECT_EQ(root["stderr_tail"].size(), 3u);
  EXPECT_EQ(root["stderr_log"], "/logs/1/stderr.log");
  EXPECT_EQ(root["stdout_log"], nullptr);
  EXPECT_EQ(root["error_file"], nullptr);
  std::vector<std::string> blames;
  for (const auto& worker : json["workers"]) blames.push_back(worker["blame"]);
  EXPECT_THAT(blames, testing::ElementsAre("peer", "root-cause", "peer", "stopped", "stopped", "none"));
  EXPECT_EQ(json["workers"][3]["how"]["name"], "SIGTERM");
  EXPECT_EQ(json["workers"][3]["how"]["text"], "stopped by muster (SIGTERM)");
}

TEST(ToJson, IsValidWhateverTheBytes) {
  Worker worker = Worker(0, exited(1), 1).wrote("\xff\xfe\0 bytes\n"s).filed(0, "\xc3(");
  worker.outcome.host = "\xff";
  Report report = report_of({worker});
  report.entrypoint = "\x80.py";
  report.command = {"\xf0\x28"};
  auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["root_cause"]["stderr_tail"][0], "\uFFFD\uFFFD\\x00 bytes");
  EXPECT_EQ(json["entrypoint"], "\uFFFD.py");
}

TEST(ToJson, NoRootCauseWhenNobodyFailedByItself) {
  Report report = report_of({Worker(0, killed(SIGTERM), 2).stopped(1)});
  report.kind = job::Ending::kSignalled;
  report.signal = SIGTERM;
  auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["root_cause"], nullptr);
  EXPECT_EQ(json["signal"], "SIGTERM");
  EXPECT_EQ(json["message"], "muster received SIGTERM");
}

}  // namespace
}  // namespace muster::report
