#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "muster/report/last_words.h"
#include "muster/report/report.h"
#include "muster/report/test/outcomes.h"

namespace muster::report {
namespace {

using enum Blame;

const std::string kGlooReset =
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:4242";
const std::string kNcclAbort =
    "terminate called after throwing an instance of 'c10::DistBackendError'\n"
    "  what():  [PG ID 0 PG GUID 0 Rank 1] Process group watchdog thread terminated with exception: NCCL error: "
    "remote process exited or there was a network error, NCCL version 2.27.5\n";

struct Case {
  const char* name;
  std::vector<Worker> workers;
  std::vector<Blame> blames;  // exactly one kRootCause, or none when nobody failed by itself
};

std::vector<Case> cases() {
  return {
      {"AloneAndSilent", {Worker(0, exited(7), 1)}, {kRootCause}},
      {"Segfault", {Worker(0, killed(SIGSEGV), 2), Worker(1, killed(SIGTERM), 3).stopped(2)}, {kRootCause, kStopped}},
      {"ASignalThatWePassedOnEndedAllBeforeTheStopDid",
       {Worker(0, killed(SIGUSR1), 2.001).passed_on().stopped(2), Worker(1, killed(SIGUSR1), 2).passed_on(),
        Worker(2, exited(1), 1.95).raised(1.95, kGlooReset), Worker(3, killed(SIGTERM), 2.2).stopped(2)},
       {kRootCause, kPassedOn, kPeer, kStopped}},
      {"AnErrorLongBeforeTheSignalThatWePassedOn",
       {Worker(0, killed(SIGUSR1), 9).passed_on().stopped(8.95), Worker(1, exited(3), 5).raised(5, "KeyError: 'x'")},
       {kPassedOn, kRootCause}},
      {"CrashedWhileWeStoppedIt",
       {Worker(0, killed(SIGSEGV), 2), Worker(1, killed(SIGSEGV), 2.01).stopped(2)},
       {kRootCause, kItself}},
      {"SlowAtexitWhilePeerDiesOfTheReset",
       {Worker(0, killed(SIGTERM), 2.5).raised(1.0, "ValueError: bad batch").stopped(1.4),
        Worker(1, exited(1), 1.4).raised(1.3, kGlooReset)},
       {kRootCause, kPeer}},
      {"CutOffInTheMiddleOfItsTraceback",
       {Worker(0, killed(SIGTERM), 1.01).failed(1.0005, "Traceback (most recent call last):\n").stopped(1.001),
        Worker(1, killed(SIGKILL), 1.0)},
       {kStopped, kRootCause}},
      {"SlowAtexitThatEndsByItself",
       {Worker(0, exited(1), 2.0).raised(1.0, "ValueError: bad batch"),
        Worker(1, exited(1), 1.4).raised(1.3, kGlooReset)},
       {kRootCause, kPeer}},
      {"SlowAtexitWhilePeerDiesOfWordsWeDoNotKnow",
       {Worker(0, killed(SIGTERM), 2.5).raised(1.0, "ValueError: bad batch").stopped(1.4),
        Worker(1, exited(1), 1.4).raised(1.3, "MyError: the ring is broken")},
       {kRootCause, kItself}},
      {"SlowEndAndUnknownWordsReadInOneGo",
       {Worker(0, killed(SIGTERM), 2.5).raised(1.0002, "ValueError: bad batch").stopped(1.1),
        Worker(1, exited(1), 1.1).raised(1.0, "MyError: the ring is broken")},
       {kRootCause, kItself}},
      {"TheSameErrorEverywhereGoesByTime",
       {Worker(0, killed(SIGTERM), 2.5).raised(1.0002, "ValueError: no such file").stopped(1.1),
        Worker(1, exited(1), 1.1).raised(1.0, "ValueError: no such file")},
       {kItself, kRootCause}},
      {"DeadAlreadyWhenTheOtherErrorCame",
       {Worker(0, killed(SIGTERM), 2.5).raised(1.002, "MyError: the ring is broken").stopped(1.003),
        Worker(1, exited(1), 1.003).raised(1.0, "ValueError: bad batch")},
       {kItself, kRootCause}},
      {"KillOfOneRankWhileOthersFallFirst",
       {Worker(0, exited(1), 1.02).raised(1.001, kGlooReset), Worker(1, killed(SIGKILL), 1.05),
        Worker(2, killed(SIGABRT), 1.06).failed(1.002, kNcclAbort), Worker(3, killed(SIGTERM), 1.2).stopped(1.05)},
       {kPeer, kRootCause, kPeer, kStopped}},
      {"KillSeenLateBesideUnknownWords",
       {Worker(0, exited(1), 1.05).raised(1.0, "MyError: the ring is broken"), Worker(1, killed(SIGKILL), 1.06)},
       {kItself, kRootCause}},
      {"OutOfMemory",
       {Worker(0, killed(SIGKILL), 5).oom(process::OomVerdict::kYes), Worker(1, killed(SIGTERM), 6).stopped(5)},
       {kRootCause, kStopped}},
      {"HandlerRaisesAfterTheStop",
       {Worker(0, exited(7), 1), Worker(1, exited(130), 1.2).stopped(1).raised(1.1, "KeyboardInterrupt"),
        Worker(2, exited(1), 1.3).stopped(1).raised(1.1, "SystemExit: 1")},
       {kRootCause, kStopped, kStopped}},
      {"LostItsPeerWhileWeStoppedIt",
       {Worker(0, exited(7), 1), Worker(1, exited(1), 1.2).stopped(1).raised(1.1, kGlooReset)},
       {kRootCause, kPeer}},
      {"AllStoppedByASignal",
       {Worker(0, killed(SIGTERM), 1.1).stopped(1),
        Worker(1, exited(130), 1.2).stopped(1).raised(1.1, "KeyboardInterrupt"), Worker(2, exited(0), 1.2).stopped(1)},
       {kStopped, kStopped, kNone}},
      {"OnlyLostPeers",
       {Worker(0, exited(1), 3.3).raised(3.2, kGlooReset), Worker(1, exited(1), 3.4).raised(3.1, kGlooReset),
        Worker(2, exited(0), 3)},
       {kPeer, kRootCause, kNone}},
      {"HandledLongAgoThenStopped",
       {Worker(0, killed(SIGTERM), 501).raised(10, "KeyError: 'logged and handled'").stopped(500.5),
        Worker(1, exited(1), 500.5).raised(500, "ValueError: bad batch")},
       {kStopped, kRootCause}},
      {"HandledLongAgoThenAnotherEnd",
       {Worker(0, exited(7), 500.6).raised(10, "KeyError: 'logged and handled'"),
        Worker(1, exited(1), 500.5).raised(500, "ValueError: bad batch")},
       {kItself, kRootCause}},
      {"HandledJustNowButWentOn",
       {Worker(0, killed(SIGTERM), 50)
            .failed(
                45,
                "Traceback (most recent call last):\n  File \"x\"\nKeyError: 1\n" +
                    [] {
                      std::string steps;
                      for (int i = 0; i < 20; ++i) steps += "step " + std::to_string(i) + "\n";
                      return steps;
                    }(),
                "KeyError: 1")
            .stopped(49.5),
        Worker(1, exited(1), 49.5).raised(49, "ValueError: bad batch")},
       {kStopped, kRootCause}},
      {"RaisedAndHungForMinutesWhilePeersTimeOut",
       {Worker(0, killed(SIGTERM), 1810).raised(5, "ValueError: bad batch").stopped(1806),
        Worker(1, exited(1), 1806)
            .raised(1805, "RuntimeError: Timed out waiting 1800000ms for recv operation to complete")},
       {kRootCause, kPeer}},
      {"ErrorFileAlone",
       {Worker(0, killed(SIGTERM), 3.5).filed(1, "ValueError: bad batch").stopped(2.6),
        Worker(1, exited(1), 2.5).filed(2, kGlooReset)},
       {kRootCause, kPeer}},
      {"ErrorFileOfAHandlerThatRaises",
       {Worker(0, exited(7), 2.5), Worker(1, exited(1), 2.9).filed(2, "RuntimeError: told to stop").stopped(2.5)},
       {kRootCause, kStopped}},
      {"ErrorFileInTheSecondOfAKill",
       {Worker(0, exited(1), 2.6).filed(2, "RuntimeError: the ring is broken"), Worker(1, killed(SIGKILL), 2.4)},
       {kItself, kRootCause}},
      {"ErrorFileOfASlowEnd",
       {Worker(0, exited(1), 4.0).filed(2, "ValueError: bad batch"), Worker(1, exited(1), 3.5)},
       {kRootCause, kItself}},
      {"LostPeerWhileHandlingItsOwnError",
       {Worker(0, exited(1), 2.0)
            .failed(1.0,
                    "Traceback (most recent call last):\n  File \"a\"\nValueError: bad batch\n\nDuring "
                    "handling of the above exception, another exception occurred:\n\nTraceback (most "
                    "recent call last):\n  File \"b\"\n" +
                        kGlooReset + "\n",
                    kGlooReset),
        Worker(1, exited(1), 0.9).raised(0.8, kGlooReset)},
       {kRootCause, kPeer}},
      {"OwnWordsForALostPeer",
       {Worker(0, exited(1), 1.0)
            .failed(0.9,
                    "Traceback (most recent call last):\n  File \"a\"\n" + kGlooReset +
                        "\n\nThe above exception was the direct cause of the following "
                        "exception:\n\nTraceback (most recent call last):\n  File "
                        "\"b\"\nTrainingError: step 3 failed\n",
                    "TrainingError: step 3 failed"),
        Worker(1, exited(1), 2.0).raised(1.0, "ValueError: bad batch")},
       {kPeer, kRootCause}},
      {"ALogLineOfALostPeerDoesNotDemote",
       {Worker(0, exited(1), 1.5)
            .failed(1.0,
                    "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"a\"\n[rank0]: "
                    "ValueError: bad batch\n[W1115 10:00:00.1 TCPStore.cpp:125] [c10d] recvValue "
                    "failed: Broken pipe\n",
                    "ValueError: bad batch"),
        Worker(1, exited(1), 1.2).raised(0.9, kGlooReset)},
       {kRootCause, kPeer}},
      {"EverybodyEndedWell", {Worker(0, exited(0), 1), Worker(1, exited(0), 2)}, {kNone, kNone}},
      {"SameInstantGoesByRank", {Worker(1, exited(1), 1), Worker(0, exited(1), 1)}, {kItself, kRootCause}},
  };
}

TEST(Judge, NamesTheRootCause) {
  for (Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Verdict verdict = judge(outcomes(c.workers));
    EXPECT_EQ(verdict.blames, c.blames) << verdict.reason;
    auto root = std::find(c.blames.begin(), c.blames.end(), kRootCause);
    EXPECT_EQ(verdict.has_root_cause(), root != c.blames.end());
    if (root != c.blames.end()) {
      EXPECT_EQ(verdict.root, static_cast<size_t>(root - c.blames.begin()));
    }
    EXPECT_FALSE(verdict.reason.empty());
  }
}

TEST(Judge, OrderOfTheWorkersDoesNotMatter) {
  for (Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Verdict verdict = judge(outcomes(c.workers));
    if (!verdict.has_root_cause()) continue;
    int expected = c.workers[verdict.root].outcome.rank;
    std::reverse(c.workers.begin(), c.workers.end());
    EXPECT_EQ(c.workers[judge(outcomes(c.workers)).root].outcome.rank, expected);
  }
}

TEST(Judge, SaysWhy) {
  Verdict slow = judge(outcomes({Worker(0, killed(SIGTERM), 2.5).raised(1.0, "ValueError: x").stopped(1.4),
                                 Worker(1, exited(1), 1.4).raised(1.25, kGlooReset)}));
  EXPECT_EQ(slow.reason,
            "rank 0's error output is the earliest sign of failure; it was still ending when we stopped it; rank 1's "
            "error output came 0.250 s later");
  Verdict lost = judge(outcomes({Worker(0, exited(1), 3).raised(2, kGlooReset), Worker(1, exited(0), 1)}));
  EXPECT_EQ(lost.reason,
            "rank 0's error output is the earliest sign of failure, though every failure speaks of a lost peer; rank 1 "
            "had ended with exit code 0 before");
  Verdict kill = judge(outcomes({Worker(0, exited(1), 1.5).raised(0.5, kGlooReset), Worker(1, killed(SIGKILL), 1)}));
  EXPECT_EQ(kill.reason,
            "rank 1's end (SIGKILL (signal 9)) is the earliest sign of failure; rank 0's error output came before but "
            "speaks of a lost peer");
}

TEST(Judge, DoubtsWhereEverybodyLostAPeer) {
  auto doubt = [](std::vector<Worker> workers) { return judge(outcomes(std::move(workers))).doubt; };
  auto fell = [](int rank, double when) { return Worker(rank, exited(1), when + 0.1).raised(when, kGlooReset); };
  EXPECT_EQ(doubt({Worker(0, killed(SIGTERM), 2.2).stopped(2.1), fell(1, 2)}),
            "rank 1 failed because a peer was gone; rank 0 was still running then, and may be the cause");
  EXPECT_EQ(doubt({Worker(0, exited(1), 2.5).stopped(2.1).raised(2.4, "KeyError: 'x'"), fell(1, 2), fell(2, 2.05),
                   Worker(3, exited(0), 2.3)}),
            "ranks 1-2 failed because a peer was gone; ranks 0, 3 were still running then, and one of them may be the "
            "cause");
  EXPECT_EQ(doubt({fell(0, 2), Worker(1, exited(0), 1)}),
            "rank 0 failed because a peer was gone; rank 1 had ended before that, with exit code 0");
  EXPECT_EQ(doubt({fell(0, 2), Worker(1, exited(0), 1), Worker(2, killed(SIGTERM), 2.5).stopped(2.1)}),
            "rank 0 failed because a peer was gone; rank 1 had ended before that, with exit code 0; rank 2 was still "
            "running then, and may be the cause");
  EXPECT_EQ(doubt({fell(0, 2), fell(1, 2.01)}),
            "ranks 0-1 failed because a peer was gone, all of them: nothing shows which was the first");
  // The peer of a job's only worker is none of ours; whoever says what happened leaves no doubt.
  EXPECT_EQ(doubt({fell(0, 2)}), "");
  EXPECT_EQ(doubt({fell(0, 2), Worker(1, exited(1), 3).raised(2.5, "KeyError: 'x'")}), "");
  EXPECT_EQ(doubt({fell(0, 2), Worker(1, killed(SIGKILL), 2.01)}), "");
}

TEST(Judge, NobodyIsAlsoAnAnswer) {
  Verdict verdict = judge({});
  EXPECT_EQ(verdict.root, 0u);
  EXPECT_FALSE(verdict.has_root_cause());
}

// Any outcomes at all: random in every field that matters.
WorkerOutcome random_worker(std::mt19937& random, int rank) {
  auto chance = [&](double p) { return std::bernoulli_distribution(p)(random); };
  auto time = [&] { return std::uniform_real_distribution<double>(0, 100)(random); };
  process::ExitStatus status = exited(0);
  if (chance(0.5)) status = exited(1 + static_cast<int>(random() % 200));
  if (chance(0.3)) status = killed(1 + static_cast<int>(random() % 31));
  double ended = time();
  Worker worker(rank, status, ended);
  if (chance(0.5)) worker.raised(time(), chance(0.5) ? kGlooReset : "ValueError: x");
  if (chance(0.2)) worker.filed(static_cast<int64_t>(time()), chance(0.5) ? kGlooReset : "ValueError: x");
  if (status.signal != 0 && chance(0.2)) worker.passed_on();
  if (chance(0.4)) worker.stopped(std::uniform_real_distribution<double>(0, ended)(random));
  return worker.outcome;
}

TEST(Judge, KeepsItsInvariantsWhateverHappened) {
  std::mt19937 random(20261115);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<WorkerOutcome> workers;
    for (int rank = 0, n = 1 + static_cast<int>(random() % 6); rank < n; ++rank)
      workers.push_back(random_worker(random, rank));
    Verdict verdict = judge(workers);
    SCOPED_TRACE(testing::Message() << "round " << round << ": " << verdict.reason);

    ASSERT_EQ(verdict.blames.size(), workers.size());
    ASSERT_LT(verdict.root, workers.size());
    ASSERT_FALSE(verdict.reason.empty());
    auto roots = std::count(verdict.blames.begin(), verdict.blames.end(), kRootCause);
    ASSERT_LE(roots, 1);
    bool any_failed = false, any_by_itself = false;
    for (size_t i = 0; i < workers.size(); ++i) {
      bool failed = !workers[i].status.success();
      any_failed |= failed;
      any_by_itself |= failed && !workers[i].stop_requested;
      ASSERT_EQ(verdict.blames[i] == kNone, !failed);
      if (verdict.blames[i] == kStopped) {
        ASSERT_TRUE(workers[i].stop_requested);
      }
    }
    if (roots == 1) {
      ASSERT_EQ(verdict.blames[verdict.root], kRootCause);
    }
    if (any_failed) {
      ASSERT_FALSE(workers[verdict.root].status.success());
    }
    if (any_by_itself) {
      ASSERT_EQ(roots, 1) << "a worker ended badly before anybody was stopped";
    }
  }
}

TEST(PeerLoss, KnowsTheWordsOfALostPeer) {
  for (const char* text : {
           "RuntimeError: [../gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1",
           "Read error [127.0.0.1]:1: Connection reset by peer",
           "BrokenPipeError: [Errno 32] Broken pipe",
           "RuntimeError: Gloo connectFullMesh failed with [../gloo.cc:1] no error",
           "Application timeout caused pair closure",
           "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
           "NCCL communicator was aborted on rank 1.",
           "remote process exited or there was a network error, NCCL version 2.27",
           "socketProgress: Connection closed by remote peer n1<4242>",
           "failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?",
           "torch.distributed.DistNetworkError: The client socket has failed to connect",
           "MPI_ERR_PROC_FAILED: Process Failure",
       })
    EXPECT_NE(peer_loss_phrase(text), "") << text;
  for (const char* text : {"", "ValueError: bad batch", "CUDA out of memory", "KeyError: 'peer'",
                           "FileNotFoundError: [Errno 2] No such file or directory: 'connection.txt'"})
    EXPECT_EQ(peer_loss_phrase(text), "") << text;
}

TEST(ExitCode, IsTheRootCausesOwn) {
  EXPECT_EQ(job_exit_code(Worker(0, exited(7), 1).outcome), 7);
  EXPECT_EQ(job_exit_code(Worker(0, killed(SIGSEGV), 1).outcome), 139);
  EXPECT_EQ(job_exit_code(Worker(0, killed(SIGUSR1), 1).passed_on().stopped(0.9).outcome), 138);
  EXPECT_EQ(job_exit_code(Worker(0, killed(SIGTERM), 1).raised(0.5, "ValueError: x").stopped(0.8).outcome), 1);
}

}  // namespace
}  // namespace muster::report
