#include "muster/process/oom.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "helpers.h"
#include "own_cgroup.h"

namespace muster::process {
namespace {

TEST(Oom, CountersOfV1) {
  test::TempDir root;
  root.write("proc/self/cgroup", "4:memory:/job/step\n");
  root.write("proc/self/mountinfo", "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n");
  root.write("proc/vmstat", "nr_free_pages 1\noom_kill 12\n");
  root.write("cg/memory/job/step/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  root.write("cg/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  root.write("cg/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 9\n");
  root.write("cg/memory/cgroup.sane_behavior", "0\n");
  OomCounters counters = read_oom_counters(root.path());
  EXPECT_EQ(counters.host, 12U);
  EXPECT_EQ(counters.cgroups,
            (std::map<std::string, uint64_t>{{root / "cg/memory/job/step", 2}, {root / "cg/memory/job", 1}}));
}

TEST(Oom, CountersOfV2) {
  test::TempDir root;
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("proc/self/mountinfo", "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
  root.write("cg/job/memory.events", "low 0\nhigh 0\nmax 5\noom 4\noom_kill 3\noom_group_kill 0\n");
  OomCounters counters = read_oom_counters(root.path());
  EXPECT_EQ(counters.host, 0U);
  EXPECT_EQ(counters.cgroups, (std::map<std::string, uint64_t>{{root / "cg/job", 3}}));
}

TEST(Oom, NothingReadable) {
  OomCounters counters = read_oom_counters("/nonexistent");
  EXPECT_EQ(counters.host, 0U);
  EXPECT_TRUE(counters.cgroups.empty());
}

TEST(Oom, Verdicts) {
  OomCounters before{{{"/cg/job", 1}, {"/cg/job/step", 1}, {"/cg/job2", 0}}, 5};
  EXPECT_EQ(judge_oom(before, before), OomVerdict::kNo);

  OomCounters own = before;
  own.cgroups["/cg/job/step"] = 2;
  EXPECT_EQ(judge_oom(before, own), OomVerdict::kYes);

  OomCounters above = before;
  above.cgroups["/cg/job"] = 2;  // with another job's processes below it
  EXPECT_EQ(judge_oom(before, above), OomVerdict::kPossibly);

  OomCounters host = before;
  host.host = 6;
  EXPECT_EQ(judge_oom(before, host), OomVerdict::kPossibly);

  OomCounters appeared = before;
  appeared.cgroups["/cg/new"] = 8;  // nothing to compare with
  EXPECT_EQ(judge_oom(before, appeared), OomVerdict::kNo);
}

// In a process inside the cgroup: a worker that is killed for the memory it takes.
int see_a_real_kill() {
  OomCounters before = read_oom_counters();
  // The largest process is killed, and 1000 adds the limit of the cgroup to this one's size. Twice the limit is more than
  // any sanitizer makes of the process that watches.
  auto worker = spawn(test::shell("echo 1000 >/proc/self/oom_score_adj; exec tail /dev/zero"));
  if (!worker) return 10;
  if (test::await_exit(*worker) != ExitStatus{.signal = SIGKILL}) return 11;
  OomCounters after = read_oom_counters();
  if (after.host <= before.host) return 12;
  return judge_oom(before, after) == OomVerdict::kYes ? 0 : 13;
}

TEST(Oom, ARealKill) {
  constexpr const char* kLimit = "402653184";
  test::OwnCgroup cgroup("memory");
  if (!cgroup.made() || !cgroup.set("memory.limit_in_bytes", kLimit)) {
    GTEST_SKIP() << "no cgroup v1 of the memory controller that this user may divide";
  }
  cgroup.set("memory.memsw.limit_in_bytes", kLimit);  // where swap is accounted for
  EXPECT_EQ(cgroup.run_inside(see_a_real_kill), 0);
}

TEST(Oom, APlainKillIsNone) {
  OomCounters before = read_oom_counters();
  auto worker = spawn(test::shell("kill -KILL $$"));
  ASSERT_TRUE(worker.ok());
  EXPECT_EQ(test::await_exit(*worker), ExitStatus{.signal = SIGKILL});
  EXPECT_NE(judge_oom(before, read_oom_counters()), OomVerdict::kYes);
}

}  // namespace
}  // namespace muster::process
