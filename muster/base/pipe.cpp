#include "muster/base/pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace muster {

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error(errno, "pipe");
  Pipe pipe{Fd(ends[0]), Fd(ends[1])};
  MUSTER_TRY_VOID(set_nonblocking(pipe.read.get(), true));
  return pipe;
}

}  // namespace muster
