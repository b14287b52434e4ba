#include "muster/cluster/slurm/step_output.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "muster/cluster/description.h"

namespace muster::cluster::slurm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class StepOutputTest : public ::testing::Test {
 protected:
  void greet(int task, const std::string& node) {
    std::string text = agent_greeting();
    text.insert(text.size() - 1, " " + node);
    output_.add_output(fmt::format("{}: {}", task, text));
  }

  std::vector<std::string> told_;
  StepOutput output_{
      {{"n1", 10}, {"n2", 20}},
      {.greeted = [this](int position, const Greeting&) { told_.push_back(fmt::format("{} is there", position)); },
       .said = [this](int position, std::string_view line) { told_.push_back(fmt::format("{}: {}", position, line)); },
       .ended = [this](int position, const TaskEnd& end) { told_.push_back(fmt::format("{} {}", position, end.how)); },
       .waits = [this](int position,
                       const std::string& why) { told_.push_back(fmt::format("{} {}", position, why)); }}};
};

TEST_F(StepOutputTest, LinesWaitUntilItIsKnownWhoseTheyAre) {
  output_.add_line("0: first");
  output_.add_line("1: of another");
  EXPECT_THAT(told_, IsEmpty());
  greet(0, "n2");
  output_.add_line("0: second");
  EXPECT_THAT(told_, ElementsAre("20: first", "20 is there", "20: second"));
}

TEST_F(StepOutputTest, TheEndOfATaskSaysWhoItWas) {
  output_.add_line("1: why");
  output_.add_line("srun: error: n1: task 1: Exited with exit code 3");
  EXPECT_THAT(told_, ElementsAre("10: why", "10 exit code 3"));
}

TEST_F(StepOutputTest, WhoIsForgottenSaysNothing) {
  output_.add_line("0: x");
  greet(1, "n2");
  told_.clear();
  output_.forget(10);
  output_.add_line("srun: Job 3 step creation temporarily disabled, retrying (busy)");
  greet(0, "n1");
  output_.add_line("srun: error: n[1-2]: tasks 0-1: Killed");
  EXPECT_THAT(told_, ElementsAre("20 busy", "20 Killed"));
  EXPECT_THAT(output_.positions(), ElementsAre(20));
}

TEST_F(StepOutputTest, OthersAndTheRestAreNotTakenForNodes) {
  greet(0, "n3");
  output_.add_output("0: hello\nno line yet");
  output_.add_line("srun: error: n7: task 0: Killed");
  EXPECT_EQ(output_.errors(), "");
  output_.add_line("srun: error: no");
  EXPECT_EQ(output_.errors(), "srun: error: no\n");
  EXPECT_THAT(told_, IsEmpty());
}

}  // namespace
}  // namespace muster::cluster::slurm
