#pragma once

#include "muster/base/fd.h"
#include "muster/base/result.h"

namespace muster {

// A pipe that a child writes and this process reads. Both ends are close-on-exec. Reading never blocks, writing does.
struct Pipe {
  Fd read, write;
};
Result<Pipe> make_pipe();

}  // namespace muster
