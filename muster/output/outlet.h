#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/output/appender.h"

namespace muster::output {

// Where one stream of the console ends: a descriptor of this process (descriptor_outlet.h), or the connection to the
// launcher (uplink.h). Never blocks.
class Outlet {
 public:
  virtual ~Outlet() = default;

  // Like write(2): takes a part of the bytes, or fails; EAGAIN: it takes no more for now.
  virtual ssize_t write(std::string_view bytes) = 0;
  // While it is watched, on_ready is called in every turn of the loop in which write() takes bytes.
  virtual void watch(bool wanted) = 0;
  std::function<void()> on_ready;

  // There is nothing to write to: the descriptor was closed when this process started.
  virtual bool closed() const { return false; }
  virtual bool is_terminal() const { return false; }
  virtual int columns() const { return 0; }  // of a terminal; 0: not known
  // write() takes everything at once.
  virtual bool always_takes() const { return false; }
  // How long it may take nothing before the console spools.
  virtual Duration patience() const { return std::chrono::milliseconds(100); }
  // What to poll while the loop does not run; a descriptor of -1: nothing.
  virtual pollfd to_poll() const { return {-1, 0, 0}; }

  // Of a thread that writes a file: bytes that write() has taken and that are not written, the failure of an earlier
  // write, and the path of a file whose file system has not responded for so long (empty: it does).
  virtual size_t waiting() const { return 0; }
  virtual bool idle() const { return true; }  // nothing waits, neither bytes nor a failure
  virtual std::optional<Appender::Failure> take_failure() { return std::nullopt; }
  virtual std::string stuck_file(Duration /*lasting*/) const { return {}; }
};

}  // namespace muster::output
