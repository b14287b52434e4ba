#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/log.h"
#include "muster/job/spec.h"
#include "muster/net/event_loop.h"

namespace muster::output {

class ConsoleSink;
class Outlet;

// What a job shows on stdout and stderr, and the only writer to them while it runs workers. Never blocks. The bytes go to
// the stdout and stderr of this process (descriptor_outlet.h) or, in an agent of a launcher, to the launcher (uplink.h).
// Bytes are kept, in order of arrival, until written: in memory while the reader keeps up, else in an unlinked temporary
// file. If stdout and stderr are the same file (2>&1) they are one stream.
//
// Ignores SIGPIPE for the whole process: a reader that has gone ends the output, not the job.
class Console {
 public:
  struct Options {
    bool colour = false;          // stderr is a terminal and NO_COLOR is unset
    bool torchrun_style = false;  // our own lines as `W1115 07:32:32.552000 <pid> muster] text`
    LogLevel threshold = LogLevel::kInfo;
    std::string speaker = {};  // in front of our own lines where several speak: "muster: n2: …"
    int stdout_fd = 1;
    int stderr_fd = 2;
    std::array<Outlet*, 2> outlets{};  // instead of these descriptors; they outlive the console
    // Where somebody else shows what we write to a stream on a terminal so wide: that counts as one, and the line that
    // moves is handed over.
    std::array<int, 2> columns{};
    std::function<void(std::string)> live_line = {};
  };
  Console(net::EventLoop& loop, Options options);
  ~Console();

  bool is_terminal(job::Stream stream) const;
  int columns(job::Stream stream) const { return options_.columns[static_cast<size_t>(stream)]; }
  // Where the temporary file lies and how large it may grow; beyond that whole lines are dropped, counted and said.
  void set_spool(const std::string& directory, uint64_t cap);
  // Nothing is dropped at the cap: has_room() is false instead, until the reader has caught up.
  void hold_back();

  // For bulk: append to what begin() returns, then commit(). `writer` tells who leaves a line unfinished: another
  // writer's text then starts on a new one. A live line is cleared before and drawn again after.
  std::string& begin(job::Stream stream, const void* writer);
  void commit(job::Stream stream);
  // The cursor stands behind an unfinished line of this writer.
  bool line_open_by(job::Stream stream, const void* writer) const;
  // The writer has ended: whoever comes next, even under the same name, starts on a new line.
  void disown_line(job::Stream stream, const void* writer);
  // Ours; whole lines. Never dropped while the reader is there.
  void write(job::Stream stream, std::string_view text);
  // The line that moves, on a terminal only: a rank's progress or our own status. Empty removes it. `tail` stays in
  // sight where there is not room for all of it.
  void set_live_line(std::string text, std::string tail = {});

  // False: better leave bytes where they are until on_room() is called, within Outlet::patience().
  bool has_room(job::Stream stream) const;
  void on_room(const std::function<void()>& callback);

  // Everything muster itself says.
  Log& log() { return log_; }

  // Writes what is left, blocking until the deadline at most. A reader that has gone (EPIPE) counts as done: what
  // follows is dropped and broken() is true.
  void flush(Deadline deadline);
  bool broken(job::Stream stream) const;
  // True when all accepted bytes are written.
  bool idle() const;
  void on_idle(std::function<void()> callback);
  // True when all accepted bytes are written but for those of a file whose file system has not responded for so long:
  // to wait for more of it is in vain.
  bool idle_or_stuck(Duration lasting) const;
  // Lines that never reached the console: a slow reader with a full spool, or a full disk.
  uint64_t dropped_lines() const;
  // At the end, on stderr: what stdout has lost, if anything, and what its reader has not taken. What stderr lost is said
  // in stderr itself.
  void say_what_stdout_lost();

 private:
  void say(LogLevel level, std::string_view text);
  ConsoleSink& sink(job::Stream stream) const { return *sinks_[static_cast<int>(stream)]; }

  Options options_;
  std::unique_ptr<Outlet> descriptors_[2];
  std::shared_ptr<ConsoleSink> sinks_[2];  // the same one twice where both are one file
  Log log_;
};

// glog's form, which torchrun uses: "W1115 07:32:32.552000 4711 muster] " with local time and our pid.
std::string torchrun_prefix(LogLevel level);

}  // namespace muster::output
