#pragma once

#include <chrono>
#include <cstddef>

#include "muster/base/clock.h"

namespace muster::output {

// How much the workers may write while the console's reader has a backlog to work off. A slow or stopped reader slows
// nobody: no limit, the spool takes it. A fast one (25 MB/s or more) is only a moment late; workers that write without
// pause would fill the spool faster than it is emptied, for ever, so they get half of what the reader takes. Pure.
class Pacer {
 public:
  static constexpr Duration kTick = std::chrono::milliseconds(50);
  static constexpr size_t kFastReader = 1'250'000;  // bytes a tick

  void reader_took(size_t bytes) { drained_ += bytes; }
  void workers_wrote(size_t bytes) { written_ += bytes; }
  bool has_room() const { return !fast_ || written_ < budget_; }

  // Every kTick.
  void tick() {
    fast_ = drained_ >= kFastReader;
    budget_ = drained_ / 2;
    drained_ = written_ = 0;
  }

 private:
  bool fast_ = false;
  size_t budget_ = 0;
  size_t drained_ = 0;
  size_t written_ = 0;
};

}  // namespace muster::output
