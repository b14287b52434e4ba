#include "muster/process/pty.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>

namespace muster::process {

Result<Pty> open_pty(int like) {
  Pty pty;
  pty.master.reset(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  if (!pty.master) return system_error(errno, "cannot open a pseudo-terminal");
  if (unlockpt(pty.master.get()) != 0) return system_error(errno, "cannot unlock a pseudo-terminal");
  // By descriptor, not by name: right also where /dev/pts is another namespace's.
  pty.slave.reset(ioctl(pty.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!pty.slave) return system_error(errno, "cannot open the far end of a pseudo-terminal");

  termios settings;
  if (tcgetattr(pty.slave.get(), &settings) != 0) return system_error(errno, "tcgetattr");
  settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  settings.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  if (tcsetattr(pty.slave.get(), TCSANOW, &settings) != 0) return system_error(errno, "tcsetattr");
  copy_window_size(like, pty.master.get());
  return pty;
}

void copy_window_size(int from, int to, size_t narrower) {
  winsize size;
  if (ioctl(from, TIOCGWINSZ, &size) != 0) return;
  if (size.ws_col > narrower) size.ws_col = static_cast<unsigned short>(size.ws_col - narrower);
  ioctl(to, TIOCSWINSZ, &size);
}

void set_columns(int pty, int columns) {
  constexpr unsigned short kUsualRows = 24;
  winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = kUsualRows;
  ioctl(pty, TIOCSWINSZ, &size);
}

}  // namespace muster::process
