#include "muster/process/cpu_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace muster::process {
namespace {

using Sets = std::vector<CpuSet>;

CpuSet range(int first, int last) {
  CpuSet cpus;
  for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  return cpus;
}

// Two nodes of four cores, each node two complexes.
const CpuLayout kTwoNodes{.nodes = {range(0, 3), range(4, 7)},
                          .sockets = {range(0, 7)},
                          .complexes = {range(0, 1), range(2, 3), range(4, 5), range(6, 7)},
                          .cores = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}};
const Sets kNoGpus3(3);

TEST(AssignCpus, RoundRobinWithoutGpus) {
  EXPECT_EQ(*assign_cpus(Binding::kNode, kTwoNodes, kNoGpus3), (Sets{range(0, 3), range(4, 7), range(0, 3)}));
  EXPECT_EQ(*assign_cpus(Binding::kSocket, kTwoNodes, kNoGpus3), Sets(3, range(0, 7)));
  EXPECT_EQ(*assign_cpus(Binding::kExclusive, kTwoNodes, kNoGpus3), (Sets{{0, 1}, range(4, 7), {2, 3}}));
  EXPECT_EQ(*assign_cpus(Binding::kCoreComplex, kTwoNodes, kNoGpus3), (Sets{{0, 1}, {4, 5}, {2, 3}}));
}

TEST(AssignCpus, NearTheGpu) {
  Sets near = {range(4, 7), range(4, 7), range(0, 3)};
  EXPECT_EQ(*assign_cpus(Binding::kNode, kTwoNodes, near), (Sets{range(4, 7), range(4, 7), range(0, 3)}));
  EXPECT_EQ(*assign_cpus(Binding::kExclusive, kTwoNodes, near), (Sets{{4, 5}, {6, 7}, range(0, 3)}));
  EXPECT_EQ(*assign_cpus(Binding::kCoreComplex, kTwoNodes, near), (Sets{{4, 5}, {6, 7}, {0, 1}}));
}

TEST(AssignCpus, AGpuOfTheWholeSocketIsDealtOut) {
  Sets near(4, range(0, 7));
  EXPECT_EQ(*assign_cpus(Binding::kNode, kTwoNodes, near), (Sets{range(0, 3), range(4, 7), range(0, 3), range(4, 7)}));
}

TEST(AssignCpus, TheExtraCoreGoesToTheFirst) {
  CpuLayout one{.nodes = {range(0, 6)}, .sockets = {}, .complexes = {}, .cores = {{0}, {1}, {2}, {3}, {4}, {5}, {6}}};
  EXPECT_EQ(*assign_cpus(Binding::kExclusive, one, kNoGpus3), (Sets{range(0, 2), {3, 4}, {5, 6}}));
}

TEST(AssignCpus, HardwareThreadsStayTogether) {
  CpuLayout one{.nodes = {range(0, 7)}, .sockets = {}, .complexes = {}, .cores = {{0, 4}, {1, 5}, {2, 6}, {3, 7}}};
  EXPECT_EQ(*assign_cpus(Binding::kExclusive, one, Sets(2)), (Sets{{0, 1, 4, 5}, {2, 3, 6, 7}}));
}

TEST(AssignCpus, UnequalNodesGetUnequalShares) {
  CpuLayout layout{.nodes = {{0}, range(1, 3)}, .sockets = {}, .complexes = {}, .cores = {{0}, {1}, {2}, {3}}};
  auto cpus = assign_cpus(Binding::kExclusive, layout, Sets(4));
  ASSERT_TRUE(cpus.ok());
  std::set<CpuSet> distinct(cpus->begin(), cpus->end());
  EXPECT_EQ(distinct, (std::set<CpuSet>{{0}, {1}, {2}, {3}}));
}

TEST(AssignCpus, TooFewCoresSayWhichAndWhatToDo) {
  auto cpus = assign_cpus(Binding::kExclusive, kTwoNodes, Sets(5, range(0, 3)));
  ASSERT_FALSE(cpus.ok());
  EXPECT_EQ(cpus.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(cpus.error().text(),
            "--numa-binding exclusive: 5 workers belong to the CPUs 0-3, which are only 4 cores; use --numa-binding "
            "node, or fewer workers");
}

TEST(AssignCpus, FullestComplexFirstAndSharedWhenTheyRunOut) {
  CpuLayout layout{.nodes = {range(0, 6)}, .sockets = {}, .complexes = {{0}, range(1, 3), range(4, 6)}, .cores = {}};
  EXPECT_EQ(*assign_cpus(Binding::kCoreComplex, layout, Sets(4)), (Sets{range(1, 3), range(4, 6), {0}, range(1, 3)}));
}

// Any machine and any mask: nobody is without CPUs, nobody outside the mask, and exclusive shares no CPU.
TEST(AssignCpus, AlwaysWithinTheMask) {
  std::mt19937 random(7);
  for (int turn = 0; turn < 500; ++turn) {
    int nodes = 1 + static_cast<int>(random() % 4);
    int cores = 1 + static_cast<int>(random() % 8);
    std::set<int> mask;
    CpuLayout layout;
    CpuSet all;
    for (int node = 0; node < nodes; ++node) {
      CpuSet of_node;
      for (int core = 0; core < cores; ++core) {
        int cpu = node * cores + core;
        if (random() % 3 == 0 && !(node == 0 && core == 0)) continue;  // not in the mask
        mask.insert(cpu);
        of_node.push_back(cpu);
        layout.cores.push_back({cpu});
        if (random() % 2 == 0) layout.complexes.push_back({cpu});
      }
      all.insert(all.end(), of_node.begin(), of_node.end());
      if (!of_node.empty()) layout.nodes.push_back(of_node);
    }
    layout.sockets = {all};
    Sets near(1 + random() % 6);
    for (CpuSet& each : near) {
      if (random() % 2 == 0) each = layout.nodes[random() % layout.nodes.size()];
    }
    for (Binding binding : {Binding::kNode, Binding::kSocket, Binding::kExclusive, Binding::kCoreComplex}) {
      auto cpus = assign_cpus(binding, layout, near);
      if (!cpus) {
        EXPECT_EQ(binding, Binding::kExclusive);
        continue;
      }
      ASSERT_EQ(cpus->size(), near.size());
      std::set<int> taken;
      for (const CpuSet& each : *cpus) {
        ASSERT_FALSE(each.empty());
        ASSERT_TRUE(std::is_sorted(each.begin(), each.end()));
        for (int cpu : each) {
          ASSERT_TRUE(mask.contains(cpu));
          ASSERT_TRUE(binding != Binding::kExclusive || taken.insert(cpu).second);
        }
      }
    }
  }
}

}  // namespace
}  // namespace muster::process
