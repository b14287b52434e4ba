#include "muster/cluster/slurm/words.h"

#include <gmock/gmock.h>

#include "muster/cluster/description.h"

namespace muster::cluster::slurm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SrunWords, ALineOfATaskHasItsNumber) {
  EXPECT_EQ(parse_task_line("3: muster: error: no")->task, 3);
  EXPECT_EQ(parse_task_line("3: muster: error: no")->text, "muster: error: no");
  EXPECT_EQ(parse_task_line(" 12: x")->task, 12);
  EXPECT_EQ(parse_task_line("0: ")->text, "");
  for (const char* line : {"srun: error: x", "", ":", "-1: x", "1", "99999999999: x", "1x: y"})
    EXPECT_FALSE(parse_task_line(line)) << line;
}

TEST(SrunWords, TheEndOfTasks) {
  auto end = parse_task_end("srun: error: n2: task 1: Exited with exit code 125");
  ASSERT_TRUE(end);
  EXPECT_THAT(end->nodes, ElementsAre("n2"));
  EXPECT_THAT(end->tasks, ElementsAre(1));
  EXPECT_EQ(end->code, 125);
  EXPECT_EQ(end->how, "exit code 125");
  end = parse_task_end("srun: error: n[1-2,5]: tasks 0-1,4: Killed");
  ASSERT_TRUE(end);
  EXPECT_THAT(end->nodes, ElementsAre("n1", "n2", "n5"));
  EXPECT_THAT(end->tasks, ElementsAre(0, 1, 4));
  EXPECT_FALSE(end->code);
  EXPECT_EQ(end->how, "Killed");
  end = parse_task_end("srun: error: n[1-2]: tasks 0: Out Of Memory");
  ASSERT_TRUE(end);
  EXPECT_THAT(end->tasks, IsEmpty()) << "not one a node: which is whose is not known";
  for (const char* line : {"srun: error: Unable to create step for job 9: Requested nodes are busy",
                           "srun: error: Node failure on n2", "srun: error: n2: x", "srun: error: n[: task 1: Killed"})
    EXPECT_FALSE(parse_task_end(line)) << line;
}

TEST(SrunWords, AnAgentSaysWhereItIs) {
  std::string greeting = agent_greeting();
  greeting.insert(greeting.size() - 1, " n2");
  EXPECT_TRUE(parse_greeting(greeting)->same_version);
  EXPECT_EQ(parse_greeting(greeting)->node, "n2");
  EXPECT_FALSE(parse_greeting("muster-agent 9.9.9 1 n2")->same_version);
  EXPECT_EQ(parse_greeting("muster-agent 9.9.9 1 n2")->version, "9.9.9");
  EXPECT_FALSE(parse_greeting(agent_greeting()));
  EXPECT_FALSE(parse_greeting("hello"));
}

TEST(SrunWords, AProgramThatIsNotThere) {
  EXPECT_EQ(why_not_executed("slurmstepd-n2: error: execve(): /x/muster: No such file or directory"),
            "No such file or directory");
  EXPECT_EQ(why_not_executed("slurmstepd: error: execve(): /x/muster: Permission denied"), "Permission denied");
  EXPECT_FALSE(why_not_executed("muster: error: execve(): /x: No such file or directory"));
}

TEST(SrunWords, WhyItWaits) {
  EXPECT_EQ(why_it_waits("srun: Job 3 step creation temporarily disabled, retrying (Requested nodes are busy)"),
            "Requested nodes are busy");
  EXPECT_FALSE(why_it_waits("srun: Step created for job 3"));
}

TEST(SrunFailure, WhatCannotPassIsNotTriedAgain) {
  auto explain = [](const char* line) { return explain_failure(1, line); };
  StartFailure failure = explain(
      "srun: error: Unable to create step for job 9: Required node not available (down, drained or reserved)\n");
  EXPECT_EQ(failure.why.message, "the node is down, drained or reserved");
  EXPECT_FALSE(failure.may_try_again);
  EXPECT_NE(failure.why.hint, "");
  EXPECT_FALSE(explain("srun: error: Unable to confirm allocation for job 999: Invalid job id specified\n"
                       "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 999\n")
                   .may_try_again);
  failure = explain("srun: error: Unable to create step for job 9: Invalid generic resource (gres) specification");
  EXPECT_EQ(failure.why.message, "Invalid generic resource (gres) specification");
  EXPECT_FALSE(failure.may_try_again);
}

TEST(SrunFailure, HasACause) {
  auto cause = [](const char* line) { return explain_failure(1, line).cause; };
  EXPECT_EQ(cause("srun: unrecognized option '--overlap'\nTry \"srun --help\""), StartCause::kThisMachine);
  EXPECT_FALSE(explain_failure(1, "srun: unrecognized option '--overlap'").may_try_again)
      << "of a Slurm that is too old";
  EXPECT_EQ(cause("srun: error: Unable to create step for job 3: Invalid user id"), StartCause::kPermission);
  EXPECT_EQ(cause("srun: error: Unable to create step for job 3: Requested nodes are busy"), StartCause::kScheduler);
  EXPECT_EQ(cause("something new"), StartCause::kScheduler);
}

TEST(SrunFailure, WhatMayPassIs) {
  auto explain = [](const char* line) { return explain_failure(1, line); };
  EXPECT_TRUE(explain("srun: error: Unable to create step for job 3: Requested nodes are busy").may_try_again);
  EXPECT_EQ(explain("srun: error: Task launch for StepId=3.0 failed on node n2: Communication connection failure")
                .why.message,
            "slurmd on the node does not answer");
  EXPECT_TRUE(explain("srun: error: Unable to contact slurm controller (connect failure)").may_try_again);
  EXPECT_EQ(explain_failure(7, "").why.message, "exit code 7");
  EXPECT_EQ(explain("srun: error: something new\nsrun: and more\n").why.message, "something new");
}

TEST(SrunFailure, AlwaysSaysSomething) {
  EXPECT_EQ(explain_failure(3, "srun: error: \n").why.message, "error:");
  EXPECT_EQ(explain_failure(3, "srun: error:  \nsrun: error: the second\nthe third").why.message, "the second");
  EXPECT_EQ(explain_failure(3, "Unable to create step for job 4, Insufficient GRES: \n").why.message,
            "Unable to create step for job 4, Insufficient GRES:");
  EXPECT_EQ(explain_failure(3, " \n\n").why.message, "exit code 3");
}

}  // namespace
}  // namespace muster::cluster::slurm
