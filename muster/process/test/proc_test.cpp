#include "muster/process/proc.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace muster::process {
namespace {

const char* const kRest = " 34816 6557 4194560 1796 38175 0 1 0 1 23 8 20 0 3 0 117578 5124096";

TEST(ProcStat, Plain) {
  auto stat = parse_proc_stat(std::string("6557 (bash) S 6551 6556 6555") + kRest);
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->pid, 6557);
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->parent, 6551);
  EXPECT_EQ(stat->session, 6555);
  EXPECT_EQ(stat->foreground, 6557);
  EXPECT_EQ(stat->threads, 3);
}

TEST(ProcStat, NamesThatTryToConfuse) {
  auto stat = parse_proc_stat(std::string("12 (a) R 1 1 (x) ) Z 7 8 9") + kRest);
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->state, 'Z');
  EXPECT_EQ(stat->parent, 7);
  EXPECT_EQ(stat->session, 9);
}

TEST(ProcStat, Garbage) {
  for (const char* text : {"", "1", "1 (", "1 (a", ") (", "x (a) S 1 1 1", "1 (a) S", "1 (a) S a b c"}) {
    EXPECT_FALSE(parse_proc_stat(text)) << text;
  }
}

TEST(ProcStat, AZombieLeaderWithThreadsHasNotEnded) {
  EXPECT_TRUE((ProcStat{.state = 'Z'}.ended()));
  EXPECT_FALSE((ProcStat{.state = 'Z', .threads = 2}.ended()));
  EXPECT_FALSE((ProcStat{.state = 'T'}.ended()));
}

TEST(ProcStat, OfThisProcess) {
  auto stat = read_proc_stat(getpid());
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->pid, getpid());
  EXPECT_EQ(stat->parent, getppid());
  EXPECT_EQ(stat->session, getsid(0));
  EXPECT_FALSE(read_proc_stat(-1));
}

std::vector<pid_t> pids(const std::vector<ProcStat>& processes) {
  std::vector<pid_t> result;
  result.reserve(processes.size());
  for (const ProcStat& process : processes) result.push_back(process.pid);
  return result;
}

TEST(TreeBelow, ParentsComeFirst) {
  std::vector<ProcStat> all = {{.pid = 5, .parent = 9}, {.pid = 9, .parent = 2}, {.pid = 2, .parent = 1},
                               {.pid = 3, .parent = 1}, {.pid = 4, .parent = 5}, {.pid = 1, .parent = 0}};
  EXPECT_EQ(pids(tree_below(2, all)), (std::vector<pid_t>{9, 5, 4}));
  EXPECT_EQ(pids(tree_below(4, all)), (std::vector<pid_t>{}));
}

TEST(TreeBelow, ACircleEnds) {
  std::vector<ProcStat> all = {{.pid = 2, .parent = 1}, {.pid = 3, .parent = 2}, {.pid = 1, .parent = 3}};
  EXPECT_EQ(pids(tree_below(1, all)), (std::vector<pid_t>{2, 3}));
}

TEST(HasEntry, WholeEntriesOnly) {
  using namespace std::string_view_literals;
  EXPECT_TRUE(has_entry("A=1\0B=22\0"sv, "B=22"));
  EXPECT_TRUE(has_entry("A=1\0B=22"sv, "A=1"));
  EXPECT_FALSE(has_entry("A=1\0B=22\0"sv, "B=2"));
  EXPECT_FALSE(has_entry("AB=22\0"sv, "B=22"));
  EXPECT_FALSE(has_entry(""sv, "B=22"));
}

}  // namespace
}  // namespace muster::process
