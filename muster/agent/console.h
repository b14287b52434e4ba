#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "muster/agent/job.h"
#include "muster/base/log.h"
#include "muster/net/event_loop.h"

namespace muster::agent {

// The launcher's own stdout and stderr, and the only writer to them. Never blocks: a descriptor of its own
// (/proc/self/fd/N reopened with O_NONBLOCK, so that nobody who shares ours is affected) where that is possible, poll
// and small writes where not. Bytes accepted are kept, in order, until written; a caller asks has_room() first and
// leaves the rest in its spool.
class Console {
 public:
  struct Options {
    bool colour;          // stderr is a terminal and NO_COLOR is unset
    bool torchrun_style;  // our own lines as `W1115 07:32:32.552000 <pid> muster] text`
  };
  Console(net::EventLoop& loop, Options options);
  ~Console();

  bool is_terminal(Stream stream) const;
  bool has_room(Stream stream) const;
  // Whole lines (or, unlabelled, raw bytes). On a terminal a live status or progress line is cleared before and drawn
  // again after.
  void write(Stream stream, std::string_view bytes);
  // The line that moves, on a terminal only: a rank's progress or our own status. Empty removes it.
  void set_live_line(std::string text);
  // Called whenever room has come back after has_room() said no.
  void on_room(std::function<void()> callback);

  // Everything muster itself says.
  Log& log() { return log_; }

  // Writes what is left, blocking until the deadline at most. A reader that has gone (EPIPE) counts as done: what
  // follows is dropped and broken() is true.
  void flush(Deadline deadline);
  bool broken(Stream stream) const;
  // True when all accepted bytes are written.
  bool idle() const;

 private:
  struct Sink;
  net::EventLoop& loop_;
  Options options_;
  std::unique_ptr<Sink> sinks_[2];
  std::string live_line_;
  std::function<void()> on_room_;
  Log log_;
};

}  // namespace muster::agent
