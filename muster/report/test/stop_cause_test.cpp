#include "muster/report/stop_cause.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace muster::report {
namespace {

// As Slurm 22.05 writes it, cut short.
std::string job(int id, const std::string& state, const std::string& reason, const std::string& more = "") {
  return fmt::format(
      "JobId={} JobName=a.sh UserId=root(0) JobState={} Reason={} Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 "
      "{}\n",
      id, state, reason, more);
}

TEST(StopCause, WhatSlurmSays) {
  EXPECT_EQ(slurm_cause(job(42, "COMPLETING", "None"), "42", 0, false), "Slurm cancelled job 42");
  EXPECT_EQ(slurm_cause(job(42, "CANCELLED", "None"), "42", 0, false), "Slurm cancelled job 42");
  EXPECT_EQ(slurm_cause(job(42, "COMPLETING", "TimeLimit"), "42", 0, false), "job 42 reached its time limit in Slurm");
  EXPECT_EQ(slurm_cause(job(42, "COMPLETING", "None", "PreemptTime=2026-11-16T18:13:31"), "42", 0, false),
            "Slurm preempted job 42");
  EXPECT_EQ(slurm_cause(job(42, "COMPLETING", "None", "PreemptTime=None"), "42", 0, false), "Slurm cancelled job 42");
  EXPECT_EQ(slurm_cause(job(42, "RUNNING", "None"), "42", 0, false), "") << "somebody's kill, or scancel -s TERM";
  EXPECT_EQ(slurm_cause(job(42, "COMPLETING", "NodeDown"), "42", 0, false), "");
  EXPECT_EQ(slurm_cause("", "42", 0, false), "");
}

// A step may go on when the script has ended, and Slurm calls the job COMPLETING then too.
TEST(StopCause, AStepCannotAlwaysTellACancellation) {
  const std::string either = "Slurm is ending job 42, which was cancelled or whose script has ended";
  const std::string cancelled = "Slurm cancelled job 42";
  const std::string ended = job(42, "COMPLETING", "None", "ExitCode=0:0");
  EXPECT_EQ(slurm_cause(ended, "42", 0, true), either);
  EXPECT_EQ(slurm_cause(ended, "42", 0, false), cancelled) << "the script runs: this is in it";
  EXPECT_EQ(slurm_cause(job(42, "COMPLETING", "None", "ExitCode=0:15"), "42", 0, true), cancelled);
  EXPECT_EQ(slurm_cause(job(42, "CANCELLED", "None", "ExitCode=0:0"), "42", 0, true), cancelled);
  EXPECT_EQ(slurm_cause(job(42, "COMPLETING", "NonZeroExitCode", "ExitCode=3:0"), "42", 0, true), "");
}

TEST(StopCause, ARequeueIsNoCancellation) {
  const std::string said = "JobId=42 JobState=COMPLETING Reason=None Requeue=1 Restarts=1\n";
  EXPECT_EQ(slurm_cause(said, "42", 0, false), "Slurm requeues job 42");
  EXPECT_EQ(slurm_cause(said, "42", 1, false), "Slurm cancelled job 42") << "it was requeued before this run";
}

TEST(StopCause, OfAnArrayOnlyThisTask) {
  const std::string all =
      job(42, "RUNNING", "None") + job(43, "COMPLETING", "None") + job(44, "COMPLETING", "TimeLimit");
  EXPECT_EQ(slurm_cause(all, "42", 0, false), "");
  EXPECT_EQ(slurm_cause(all, "43", 0, false), "Slurm cancelled job 43");
}

TEST(StopCause, ASchedulerIsAskedOnlyForItsOwnSignal) {
  EXPECT_EQ(scheduler_cause(SIGINT, {{"SLURM_JOB_ID", "42"}, {"PATH", "/nowhere"}}), "");
  EXPECT_EQ(scheduler_cause(SIGTERM, {{"PATH", "/nowhere"}}), "");
  EXPECT_EQ(scheduler_cause(SIGTERM, {{"SLURM_JOB_ID", "42"}, {"PATH", "/nowhere"}}), "") << "there is no scontrol";
}

// scancel signals every process of a job's step, and scontrol is one of them.
TEST(StopCause, ASchedulerIsAskedAgainIfItsSignalEndsTheQuestion) {
  const std::string directory = ::testing::TempDir() + "stop_cause_" + std::to_string(::getpid());
  std::filesystem::create_directory(directory);
  std::ofstream(directory + "/scontrol") << "#!/bin/sh\n[ -e $HERE/asked ] || { : >$HERE/asked; kill -TERM $$; }\n"
                                         << "echo '" << job(42, "COMPLETING", "None") << "'\n";
  std::filesystem::permissions(directory + "/scontrol", std::filesystem::perms::owner_all);
  EXPECT_EQ(scheduler_cause(SIGTERM, {{"SLURM_JOB_ID", "42"}, {"PATH", directory}, {"HERE", directory}}),
            "Slurm cancelled job 42");
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace muster::report
