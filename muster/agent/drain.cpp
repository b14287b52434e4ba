#include "muster/agent/drain.h"

#include <algorithm>

namespace muster::agent {
namespace {

// How often the agent checks whether a file system still responds.
constexpr auto kFilePeriod = std::chrono::milliseconds(250);

}  // namespace

void Drain::wait_for_files(output::Output& output) {
  output.close_filtered();
  output.on_files_idle([this] { loop_.stop(); });
  while (!output.files_idle()) {
    const std::string stuck = output.stuck_file(kFlushTime);
    if (!stuck.empty())
      return console_.log().warn("log files are not complete: {} is on a file system that does not respond", stuck);
    loop_.run_until(Deadline::in(kFilePeriod));
  }
}

void Drain::wait_for_console() {
  const size_t signals = stop_signals_.size();
  const Deadline deadline = Deadline::at(signals > 0 ? Clock::now() + kFlushTime : TimePoint::max());
  console_.on_idle([this] { loop_.stop(); });
  if (uplink_ != nullptr) uplink_->on_idle([this] { loop_.stop(); });
  while (!console_is_idle() && stop_signals_.size() == signals && !deadline.passed())
    loop_.run_until(Deadline::at(std::min(deadline.time(), Clock::now() + kFilePeriod)));
}

bool Drain::console_is_idle() {
  if (!console_.idle_or_stuck(kFlushTime)) return false;
  if (uplink_ == nullptr) return true;
  uplink_->flush();
  return uplink_->idle();
}

}  // namespace muster::agent
