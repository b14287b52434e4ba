#include "muster/plan/plan.h"

#include <gmock/gmock.h>

namespace muster::plan {
namespace {

// A machine as data: one script, Python and no GPU.
Facts some_facts() {
  Facts facts;
  facts.host = "n7";
  facts.uuid = "00000000-0000-4000-8000-0000000000ff";
  facts.working_directory = "/home/ada";
  facts.descriptor_limit = 1024;
  facts.answers[{Topic::kGpus}] = process::GpuCount();
  facts.answers[{Topic::kPathKind, "train.py"}] = PathKind::kFile;
  facts.answers[{Topic::kPython}] = std::string("/usr/bin/python3");
  facts.answers[{Topic::kTorch, "/usr/bin/python3"}] = std::optional(process::TorchVersion{2, 13, "2.13.0"});
  facts.answers[{Topic::kIsThisMachine, "127.0.0.1"}] = true;
  facts.answers[{Topic::kUsableCores}] = 16;
  return facts;
}

job::Request some_request() {
  job::Request request;
  request.words = {"train.py", "-x"};
  return request;
}

TEST(Plan, FollowsFromRequestAndFacts) {
  const Outcome outcome = plan(some_request(), some_facts());
  const auto* plan = std::get_if<JobPlan>(&outcome);
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->job().workers, 1);
  EXPECT_EQ(plan->job().host, "n7");
  EXPECT_THAT(plan->job().command.argv, testing::ElementsAre("/usr/bin/python3", "-u", "train.py", "-x"));
  EXPECT_EQ(plan->job().environment.get("OMP_NUM_THREADS"), "16");
  EXPECT_THAT(plan->notes, testing::IsEmpty());
}

TEST(Plan, AsksForWhatItMissesInOrder) {
  Facts facts = some_facts();
  facts.answers.erase({Topic::kPython});
  facts.answers.erase({Topic::kUsableCores});
  Outcome outcome = plan(some_request(), facts);
  ASSERT_TRUE(std::holds_alternative<Question>(outcome));
  EXPECT_EQ(std::get<Question>(outcome), Question{Topic::kPython});
  facts.answers[{Topic::kPython}] = Error{ErrorKind::kUsage, "no python on PATH", {}};
  outcome = plan(some_request(), facts);
  ASSERT_TRUE(std::holds_alternative<Error>(outcome)) << "an error is an answer";
  EXPECT_EQ(std::get<Error>(outcome).message, "no python on PATH");
}

TEST(Plan, AsksForNothingThatDoesNotMatter) {
  job::Request request = some_request();
  request.hosts.value = {{"n1", {}}, {"n2", {}}};
  request.hosts.origin = job::Origin::kOption;
  Facts facts;
  facts.answers[{Topic::kProgram, "ssh"}] = std::string("/bin/ssh");
  const Outcome outcome = plan(request, facts);
  ASSERT_TRUE(std::holds_alternative<JobPlan>(outcome)) << "the nodes have program, Python and GPUs";
  EXPECT_EQ(std::get<JobPlan>(outcome).fan_out()->hosts.size(), 2U);
}

TEST(Plan, ANodeIsSetUpBeforeAnythingElseIsDecided) {
  job::Request request = some_request();
  request.prologues = {"module load gcc"};
  request.env = {{"A", "1"}};
  Facts facts;
  facts.environment = {{"PATH", "/bin"}};
  Outcome outcome = plan(request, facts);
  ASSERT_TRUE(std::holds_alternative<plan::SetUp>(outcome));
  EXPECT_THAT(std::get<plan::SetUp>(outcome).setup.prologues, testing::ElementsAre("module load gcc"));
  facts = some_facts();
  facts.left_by_set_up = {{"PATH", "/opt/gcc/bin"}, {"A", "1"}};
  outcome = plan(request, facts);
  ASSERT_TRUE(std::holds_alternative<JobPlan>(outcome));
  EXPECT_EQ(std::get<JobPlan>(outcome).job().environment.get("PATH"), "/opt/gcc/bin");
}

TEST(Plan, AnAgentCompletesTheRequestOfItsLauncher) {
  job::Request request = some_request();
  request.hosts.value = {{"n1", {}}, {"n2", {}}};
  request.hosts.origin = job::Origin::kOption;
  request.env = {{"HERE", std::nullopt}};
  Facts launcher;
  launcher.environment = {{"HERE", "x"}};
  launcher.answers[{Topic::kProgram, "ssh"}] = std::string("/bin/ssh");
  const Outcome outcome = plan(request, launcher);
  ASSERT_TRUE(std::holds_alternative<JobPlan>(outcome));
  const auto sent = job::decode_request(job::encode(std::get<JobPlan>(outcome).for_nodes));
  ASSERT_TRUE(sent);
  const Assignment assignment{.endpoints = {"10.0.0.1:1"}, .run_id = "id", .host = "n2", .position = 1, .workers = 4};
  Facts facts = some_facts();
  facts.left_by_set_up = {{"HERE", "x"}};
  const Outcome part = plan(*sent, facts, &assignment);
  ASSERT_TRUE(std::holds_alternative<JobPlan>(part));
  const job::JobSpec& job = std::get<JobPlan>(part).job();
  EXPECT_EQ(job.host, "n2");
  EXPECT_EQ(job.run_id, "id");
  EXPECT_EQ(job.workers, 4);
  EXPECT_EQ(job.environment.get("HERE"), "x");
  EXPECT_EQ(job.environment.get("OMP_NUM_THREADS"), "4");
}

}  // namespace
}  // namespace muster::plan
