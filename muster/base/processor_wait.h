#pragma once

#include "muster/base/clock.h"
#include "muster/base/fd.h"

namespace muster {

// How long the thread that made this has waited for a processor: ready to run, while others ran.
class ProcessorWait {
 public:
  ProcessorWait();
  // Since the last call. 0 where the kernel does not count it.
  Duration take();

 private:
  Fd counters_;
  Duration taken_{};
};

}  // namespace muster
