#include <gtest/gtest.h>

#include "muster/output/label.h"

namespace muster::output {
namespace {

const LabelNames kNames{"trainer", 3, 11, "n17"};

TEST(PrefixTemplate, ReplacesEveryName) {
  EXPECT_EQ(expand_prefix("[${role_name}${local_rank}/$rank@$hostname]:", kNames), "[trainer3/11@n17]:");
}

TEST(PrefixTemplate, LeavesTheRestAsSafeSubstituteDoes) {
  EXPECT_EQ(expand_prefix("$$rank ${nobody} $ranks $ ${} ${rank ${1} $", kNames),
            "$rank ${nobody} $ranks $ ${} ${rank ${1} $");
  EXPECT_EQ(expand_prefix("", kNames), "");
  EXPECT_EQ(expand_prefix("$rank$rank", kNames), "1111");
  EXPECT_EQ(expand_prefix("${rank", kNames), "${rank");
}

TEST(WorkerLabel, FollowsFlavourKindAndTemplate) {
  job::JobSpec job;
  job::Placement placement;
  placement.rank = 11;
  placement.local_rank = 3;
  EXPECT_EQ(worker_label(job, placement, "n17"), "");
  job.output.label = job::LabelKind::kRank;
  EXPECT_EQ(worker_label(job, placement, "n17"), "[11] ");
  job.output.label = job::LabelKind::kHostRank;
  EXPECT_EQ(worker_label(job, placement, "n17"), "[n17:11] ");
  job.flavor = job::Flavor::kTorchrun;
  EXPECT_EQ(worker_label(job, placement, "n17"), "[n17:11] ") << "one asked for, among other nodes";
  job.output.label = job::LabelKind::kNone;
  EXPECT_EQ(worker_label(job, placement, "n17"), "[default3]:");
  job.output.prefix_template = "flag:";
  EXPECT_EQ(worker_label(job, placement, "n17"), "flag:");
}

}  // namespace
}  // namespace muster::output
