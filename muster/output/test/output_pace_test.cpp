#include "muster/output/output_pace.h"

#include <gtest/gtest.h>

namespace muster::output {
namespace {

using std::chrono::milliseconds;

// A launcher that forwards output whenever its pace lets it, for a minute.
class Forwarder {
 public:
  // The part of its time that it worked, where each piece takes `work`, and before each it waits for a processor.
  double busy_share(Duration work, Duration wait) {
    Duration worked{};
    while (now_ < TimePoint() + std::chrono::minutes(1)) {
      now_ += wait;
      const TimePoint began = now_;
      now_ += work;
      worked += work;
      if (auto until = pace_.worked(began, now_, wait)) now_ = *until;
    }
    return std::chrono::duration<double>(worked) / std::chrono::minutes(1);
  }

 private:
  OutputPace pace_;
  TimePoint now_;
};

TEST(OutputPace, HalfOfTheTimeOnAnIdleMachine) {
  EXPECT_NEAR(Forwarder().busy_share(std::chrono::microseconds(300), {}), 0.5, 0.01);
  EXPECT_NEAR(Forwarder().busy_share(milliseconds(3), {}), 0.5, 0.01);
}

TEST(OutputPace, LittleWhereProcessorsAreScarce) {
  // One that takes its turn with nine others.
  EXPECT_LT(Forwarder().busy_share(milliseconds(1), milliseconds(9)), 0.03);
}

TEST(OutputPace, AlwaysSome) { EXPECT_GT(Forwarder().busy_share(milliseconds(1), std::chrono::seconds(1)), 0.0005); }

TEST(OutputPace, NoRestAfterALittle) {
  OutputPace pace;
  const TimePoint now = TimePoint() + milliseconds(5);
  EXPECT_EQ(pace.worked(now, now + milliseconds(1), {}), std::nullopt);
  // Time has passed without output: that was rest.
  EXPECT_EQ(pace.worked(now + milliseconds(9), now + milliseconds(10), {}), std::nullopt);
}

}  // namespace
}  // namespace muster::output
