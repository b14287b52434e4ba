#include "muster/output/output_pace.h"

#include <algorithm>

namespace muster::output {
namespace {

constexpr Duration kTurn = std::chrono::milliseconds(2);  // before it rests
constexpr int kRestForAWait = 3;
constexpr Duration kLongestRest = std::chrono::milliseconds(100);

}  // namespace

std::optional<TimePoint> OutputPace::worked(TimePoint began, TimePoint ended, Duration waited) {
  const Duration rested = began - counted_;
  debt_ = std::max(Duration(0), debt_ - rested) + (ended - began) + kRestForAWait * waited;
  debt_ = std::min(debt_, kLongestRest);
  counted_ = ended;
  if (debt_ < kTurn) return std::nullopt;
  return ended + debt_;
}

}  // namespace muster::output
