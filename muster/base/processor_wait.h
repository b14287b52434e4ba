#pragma once

#include "muster/base/clock.h"
#include "muster/base/fd.h"

namespace muster {

// Measures how long the thread that created this was ready to run and waited for a processor.
class ProcessorWait {
 public:
  ProcessorWait();
  // Since the last call. 0 if the kernel does not count it.
  Duration take();

 private:
  Fd counters_;
  Duration taken_{};
};

}  // namespace muster
