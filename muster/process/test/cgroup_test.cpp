#include "muster/process/cgroup.h"

#include <gtest/gtest.h>

namespace muster::process {
namespace {

using Folders = std::vector<std::string>;

TEST(FindCgroups, V1EveryLevel) {
  auto places = find_cgroups("memory", "9:name=systemd:/\n4:memory:/slurm/uid_7/job_1/step_0\n1:cpu,cpuacct:/\n",
                             "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
                             "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  ASSERT_EQ(places.size(), 1U);
  EXPECT_FALSE(places[0].v2);
  EXPECT_EQ(places[0].folders,
            (Folders{"/sys/fs/cgroup/memory/slurm/uid_7/job_1/step_0", "/sys/fs/cgroup/memory/slurm/uid_7/job_1",
                     "/sys/fs/cgroup/memory/slurm/uid_7", "/sys/fs/cgroup/memory/slurm", "/sys/fs/cgroup/memory"}));
}

TEST(FindCgroups, V1JoinedControllers) {
  auto places = find_cgroups("cpu", "1:cpu,cpuacct:/a\n2:cpuset:/b\n",
                             "32 31 0:29 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n"
                             "33 31 0:30 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct");
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].folders, (Folders{"/cg/cpu/a", "/cg/cpu"}));
}

TEST(FindCgroups, V2) {
  auto places = find_cgroups("memory", "0::/user.slice/session-1.scope\n",
                             "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
  ASSERT_EQ(places.size(), 1U);
  EXPECT_TRUE(places[0].v2);
  EXPECT_EQ(places[0].folders,
            (Folders{"/sys/fs/cgroup/user.slice/session-1.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"}));
}

TEST(FindCgroups, AContainersMountHidesTheLevelsAbove) {
  auto places = find_cgroups("memory", "4:memory:/docker/1/x\n",
                             "35 31 0:32 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].folders, (Folders{"/sys/fs/cgroup/memory/x", "/sys/fs/cgroup/memory"}));
}

TEST(FindCgroups, APathOutsideTheMountIsItsRoot) {
  for (const char* path : {"/../other", "/docker/2", "/docker/11", "/"}) {
    auto places = find_cgroups("memory", std::string("4:memory:") + path,
                               "35 31 0:32 /docker/1 /cg/memory/ ro - cgroup cgroup rw,memory\n");
    ASSERT_EQ(places.size(), 1U);
    EXPECT_EQ(places[0].folders, (Folders{"/cg/memory"})) << path;
  }
}

TEST(FindCgroups, BlanksInNames) {
  auto places = find_cgroups("memory", "0::/a b:c", "35 31 0:32 / /my\\040cg rw - cgroup2 none rw\n");
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].folders, (Folders{"/my cg/a b:c", "/my cg"}));
}

TEST(FindCgroups, Garbage) {
  EXPECT_TRUE(find_cgroups("memory", "", "").empty());
  EXPECT_TRUE(find_cgroups("memory", "0::/", "a - cgroup2 b c\n - cgroup2\n1 2 3 4 5 6 - ext4 x y").empty());
  EXPECT_TRUE(find_cgroups("memory", ":\n::\nx", "35 31 0:32 / /cg rw - cgroup cgroup rw,memory").empty());
}

TEST(ReadCgroups, ThisMachineHasWhatItSays) {
  for (const CgroupPlace& place : read_cgroups("cpu", "")) {
    ASSERT_FALSE(place.folders.empty());
    EXPECT_EQ(place.folders.back().find("/proc"), std::string::npos);
  }
  EXPECT_TRUE(read_cgroups("cpu", "/nonexistent").empty());
}

TEST(CgroupCounter, ReadsItsOwnLineOnly) {
  const char* text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\noom_group_kill 7\n";
  EXPECT_EQ(cgroup_counter(text, "oom_kill"), 3U);
  EXPECT_EQ(cgroup_counter(text, "oom"), std::nullopt);
  EXPECT_EQ(cgroup_counter("oom_kill", "oom_kill"), std::nullopt);
  EXPECT_EQ(cgroup_counter("oom_kill -1\n", "oom_kill"), std::nullopt);
}

TEST(CpuQuota, Parse) {
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max("max 100000\n"), std::nullopt);
  EXPECT_EQ(parse_cpu_max("100000"), std::nullopt);
  EXPECT_EQ(parse_cpu_max(""), std::nullopt);
  EXPECT_EQ(parse_cpu_max("100000 0"), std::nullopt);
  EXPECT_EQ(parse_cfs_quota("-1\n", "100000\n"), std::nullopt);
  EXPECT_EQ(parse_cfs_quota("400000\n", "100000\n"), 4);
}

}  // namespace
}  // namespace muster::process
