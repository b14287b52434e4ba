#include <gtest/gtest.h>

#include "muster/output/stream_plan.h"

namespace muster::output {
namespace {

using Source = StreamPlan::Source;
using Style = StreamPlan::Style;

job::JobSpec muster_job(int workers) {
  job::JobSpec job;
  job.workers = workers;
  job.output.label = workers > 1 ? job::LabelKind::kRank : job::LabelKind::kNone;
  return job;
}

job::JobSpec torchrun_job() {
  job::JobSpec job;
  job.flavor = job::Flavor::kTorchrun;
  job.workers = 2;
  job.output.inherit_plain_streams = true;
  return job;
}

TEST(StreamPlan, OneWorkerIsPassedThrough) {
  StreamPlan plan = plan_stream(muster_job(1), 0, job::Stream::kStdout, false, false);
  EXPECT_EQ(plan, (StreamPlan{Source::kPipe, Style::kRaw, false, true, false, false}));
}

TEST(StreamPlan, SeveralWorkersGetLabelledLines) {
  StreamPlan plan = plan_stream(muster_job(2), 1, job::Stream::kStderr, false, false);
  EXPECT_EQ(plan, (StreamPlan{Source::kPipe, Style::kLines, false, true, true, false}));
}

TEST(StreamPlan, SeveralWorkersWithoutLabelStillGetWholeLines) {
  job::JobSpec job = muster_job(2);
  job.output.label = job::LabelKind::kNone;
  EXPECT_EQ(plan_stream(job, 0, job::Stream::kStdout, false, false).style, Style::kLines);
}

TEST(StreamPlan, ATerminalGivesATerminal) {
  EXPECT_EQ(plan_stream(muster_job(2), 0, job::Stream::kStdout, false, true).source, Source::kPty);
}

TEST(StreamPlan, RedirectedStreamsAreOnlyFiled) {
  job::JobSpec job = muster_job(2);
  job.output.redirects = {{0, 1}};
  StreamPlan out = plan_stream(job, 0, job::Stream::kStdout, false, true);
  EXPECT_TRUE(out.file);
  EXPECT_FALSE(out.console);
  EXPECT_EQ(out.source, Source::kPipe);
  EXPECT_FALSE(plan_stream(job, 0, job::Stream::kStderr, false, false).file);
  EXPECT_FALSE(plan_stream(job, 1, job::Stream::kStdout, false, false).file);
}

TEST(StreamPlan, TeedStreamsAreFiledAndShown) {
  job::JobSpec job = muster_job(2);
  job.output.tee = {{0, 2}};
  StreamPlan plan = plan_stream(job, 0, job::Stream::kStderr, false, false);
  EXPECT_TRUE(plan.file);
  EXPECT_TRUE(plan.console);
  EXPECT_EQ(plan.style, Style::kLines);
}

TEST(StreamPlan, TorchrunsPlainStreamsAreOurOwn) {
  EXPECT_EQ(plan_stream(torchrun_job(), 0, job::Stream::kStdout, false, true).source, Source::kInherit);
}

TEST(StreamPlan, AmongOtherNodesTorchrunsLinesAreLabelled) {
  job::JobSpec job = torchrun_job();
  job.output.inherit_plain_streams = false;
  job.output.label = job::LabelKind::kHostRank;
  StreamPlan plan = plan_stream(job, 0, job::Stream::kStdout, false, false);
  EXPECT_EQ(plan, (StreamPlan{Source::kPipe, Style::kLines, false, true, true, false}));
}

TEST(StreamPlan, TorchrunsTeeIsPrefixedAndNeverATerminal) {
  job::JobSpec job = torchrun_job();
  job.output.tee = {{0, 3}, {1, 3}};
  StreamPlan plan = plan_stream(job, 0, job::Stream::kStdout, false, true);
  EXPECT_EQ(plan, (StreamPlan{Source::kPipe, Style::kTorchrun, true, true, true, false}));
}

TEST(StreamPlan, RanksThatAreFilteredOutReachNoConsole) {
  job::JobSpec job = torchrun_job();
  job.output.console_ranks = std::set<int>{1};
  job.output.tee = {{0, 1}};
  StreamPlan teed = plan_stream(job, 0, job::Stream::kStdout, false, false);
  EXPECT_TRUE(teed.file);
  EXPECT_FALSE(teed.console);
  job.output.tee = {};
  EXPECT_EQ(plan_stream(job, 0, job::Stream::kStdout, false, false).source, Source::kNull);
  // The report needs the last words all the same.
  EXPECT_EQ(plan_stream(job, 0, job::Stream::kStderr, false, false).source, Source::kPipe);
  EXPECT_FALSE(plan_stream(job, 0, job::Stream::kStderr, false, false).console);
  EXPECT_EQ(plan_stream(job, 1, job::Stream::kStdout, false, false).source, Source::kInherit);
}

TEST(StreamPlan, FiltersConcernTeedStreamsAlone) {
  job::JobSpec job = torchrun_job();
  job.output.stdout_filters = {"loss"};
  job.output.tee = {{0, 3}};
  EXPECT_TRUE(plan_stream(job, 0, job::Stream::kStdout, false, false).filtered);
  EXPECT_FALSE(plan_stream(job, 0, job::Stream::kStderr, false, false).filtered);
  EXPECT_FALSE(plan_stream(job, 1, job::Stream::kStdout, false, false).filtered);
}

TEST(StreamPlan, WithoutLogsRedirectsTeeAndRankFilterMeanNothing) {
  job::JobSpec job = torchrun_job();
  job.output.log_dir = "/dev/null";
  job.output.redirects = {{0, 3}};
  job.output.tee = {{0, 3}};
  job.output.console_ranks = std::set<int>{1};
  EXPECT_EQ(plan_stream(job, 0, job::Stream::kStdout, true, false).source, Source::kInherit);
}

}  // namespace
}  // namespace muster::output
