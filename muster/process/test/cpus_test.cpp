#include "muster/process/cpus.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>

#include "helpers.h"
#include "own_cgroup.h"

namespace muster::process {
namespace {

TEST(Cpus, AffinityIsTheKernels) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  auto cpus = affinity_cpus();
  EXPECT_EQ(cpus.size(), static_cast<size_t>(CPU_COUNT(&set)));
  EXPECT_TRUE(std::is_sorted(cpus.begin(), cpus.end()));
  for (int cpu : cpus) EXPECT_TRUE(CPU_ISSET(cpu, &set));
}

TEST(Cpus, NoCgroupMeansTheMask) {
  test::TempDir root;
  EXPECT_EQ(usable_cores(root.path()), static_cast<int>(affinity_cpus().size()));
}

TEST(Cpus, QuotaOfV1AtAnyLevel) {
  test::TempDir root;
  root.write("proc/self/cgroup", "1:cpu,cpuacct:/a/b\n");
  root.write("proc/self/mountinfo", "33 31 0:30 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
  root.write("cg/cpu/a/b/cpu.cfs_quota_us", "-1\n");
  root.write("cg/cpu/a/b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable_cores(root.path()), static_cast<int>(affinity_cpus().size()));
  root.write("cg/cpu/a/cpu.cfs_quota_us", "20000\n");
  root.write("cg/cpu/a/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(usable_cores(root.path()), 1);
}

TEST(Cpus, QuotaOfV2AtAnyLevel) {
  test::TempDir root;
  root.write("proc/self/cgroup", "0::/a/b\n");
  root.write("proc/self/mountinfo", "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
  root.write("cg/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(usable_cores(root.path()), static_cast<int>(affinity_cpus().size()));
  root.write("cg/a/cpu.max", "70000 100000\n");
  EXPECT_EQ(usable_cores(root.path()), 1);
}

TEST(Cpus, ARealQuota) {
  test::OwnCgroup cgroup("cpu");
  if (!cgroup.made() || !cgroup.set("cpu.cfs_quota_us", "60000")) {
    GTEST_SKIP() << "no cgroup v1 of the cpu controller that this user may divide";
  }
  EXPECT_EQ(cgroup.run_inside([] { return usable_cores(); }), 1);
}

TEST(Cpus, ThreadsPerWorker) {
  EXPECT_EQ(threads_per_worker(16, 4), 4);
  EXPECT_EQ(threads_per_worker(17, 4), 4);
  EXPECT_EQ(threads_per_worker(2, 8), 1);
  EXPECT_EQ(threads_per_worker(0, 0), 1);
}

}  // namespace
}  // namespace muster::process
