#include "muster/cluster/adapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<std::string> no_file(const std::string& path) { return Error{ErrorKind::kSystem, path, {}}; }
Result<std::string> no_program(const std::string& name) { return Error{ErrorKind::kNotFound, name, {}}; }
std::optional<std::string> no_variable(const std::string& /*name*/) { return std::nullopt; }

TEST(Adapters, AreAskedInThisOrder) {
  std::vector<std::string_view> names;
  for (const Adapter* adapter : adapters()) names.push_back(adapter->name());
  EXPECT_THAT(names, ElementsAre("worker", "slurm", "pbs", "preset", "ssh", "local"));
}

TEST(Adapters, FindNothingWhereNothingIs) {
  for (const Adapter* adapter : adapters()) {
    auto here = adapter->detect(no_variable, no_file);
    ASSERT_TRUE(here) << adapter->name() << ": " << here.error().text();
    EXPECT_FALSE(*here) << adapter->name();
    EXPECT_EQ(adapter->job_number(no_variable), "") << adapter->name();
    EXPECT_EQ(adapter->job_name(no_variable), "") << adapter->name();
    EXPECT_EQ(adapter->job_of_cgroup("/user.slice/session.scope"), "") << adapter->name();
  }
}

TEST(Adapters, ThoseWithNodesStartAgents) {
  net::EventLoop loop;
  std::vector<std::string_view> starting, asking;
  for (const Adapter* adapter : adapters()) {
    if (adapter->make_starter(loop, {}, {}, {})) starting.push_back(adapter->name());
    if (adapter->agents_ask()) asking.push_back(adapter->name());
  }
  EXPECT_THAT(starting, ElementsAre("slurm", "pbs", "ssh", "local"));
  EXPECT_THAT(asking, ElementsAre("slurm", "pbs"));
}

TEST(Adapters, SlurmNeedsSrun) {
  auto found = slurm::adapter().find_tools(no_variable, no_program, no_file);
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("no srun on PATH"));
  found = slurm::adapter().find_tools(
      no_variable, [](const std::string& name) -> Result<std::string> { return "/usr/bin/" + name; }, no_file);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path("srun"), "/usr/bin/srun");
  EXPECT_EQ(found->words, "srun");
}

TEST(Adapters, ACommandForAllNodes) {
  Surroundings here;
  here.allocated = 4;
  EXPECT_EQ(slurm::adapter().run_on_all(here), "srun -N 4");
  here.components = 2;
  EXPECT_EQ(slurm::adapter().run_on_all(here), "srun --het-group=0-1");
  EXPECT_EQ(pbs::adapter().run_on_all(here), "");
}

}  // namespace
}  // namespace muster::cluster
