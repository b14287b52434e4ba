#pragma once

#include "muster/base/fd.h"
#include "muster/base/result.h"

namespace muster::process {

// A pseudo-terminal whose output reaches the master unchanged (no \n -> \r\n), with the size of `like` if that is one.
// When the last slave is closed, read() of the master gives what is left and then EIO: that is its end of file.
struct Pty {
  Fd master;  // non-blocking
  Fd slave;
};
Result<Pty> open_pty(int like);

// Copies the window size, with fewer columns; the processes on the other end get SIGWINCH from the kernel only if it
// is their controlling terminal, so the caller signals them itself.
void copy_window_size(int from, int to, size_t narrower = 0);
void set_columns(int pty, int columns);

}  // namespace muster::process
