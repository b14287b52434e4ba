#pragma once

#include "muster/base/fd.h"
#include "muster/base/result.h"

namespace muster {

// What a child writes and we read. Both ends are closed on exec; reading never blocks, writing does.
struct Pipe {
  Fd read, write;
};
Result<Pipe> make_pipe();

}  // namespace muster
