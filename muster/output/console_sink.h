#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/net/event_loop.h"
#include "muster/output/appender.h"
#include "muster/output/capped_file.h"
#include "muster/output/pacer.h"

namespace muster::output {

// One descriptor of ours (stdout, stderr, or both where they are the same file), written without ever blocking.
//
//   keeping up  --queue full for kPatience-->  behind  --spool read to its end-->  keeping up
//
// Keeping up, bytes go from memory straight to the descriptor. Behind, they go to an unlinked temporary file in the
// order of arrival and from there to the descriptor at the reader's pace. A full spool drops whole lines.
class ConsoleSink {
 public:
  // A reader that is merely busy for a moment costs no spool; one that has stopped delays workers by this at most.
  static constexpr Duration kPatience = std::chrono::milliseconds(100);
  // A file has no reader. A slow disk delays workers; one that does nothing for this long does not respond.
  static constexpr Duration kFilePatience = std::chrono::seconds(2);

  // Does not own `fd`. SIGPIPE must be ignored.
  ConsoleSink(net::EventLoop& loop, int fd);
  ~ConsoleSink();
  ConsoleSink(const ConsoleSink&) = delete;
  ConsoleSink& operator=(const ConsoleSink&) = delete;

  bool is_terminal() const { return terminal_; }
  bool same_file(int fd) const;
  // The spool is made when it is needed, in the temporary directory if `directory` is gone by then.
  void set_spool(std::string directory, uint64_t cap);
  // The writers wait while the spool holds its cap, and nothing is dropped for that. For writers that can wait.
  void hold_back() { holds_back_ = true; }

  // Append to what begin() returns, then commit(). A line that another writer left unfinished is ended first. Bytes
  // reach the descriptor at the end of the current wake-up.
  std::string& begin(const void* writer);
  void commit();
  // Never dropped for want of room: what muster itself says.
  void say(std::string_view text);
  bool line_open_by(const void* writer) const { return !at_line_start_ && writer_ == writer; }
  void disown_line(const void* writer) {
    if (writer_ == writer) writer_ = this;
  }
  void set_live_line(std::string text, std::string tail);

  bool has_room() const;
  bool idle() const;           // all is written
  uint64_t unwritten() const;  // bytes that wait for the descriptor
  // A file whose file system has not responded for so long, or "": it is not stuck.
  std::string stuck_file(Duration lasting) const;
  bool broken() const { return broken_; }
  uint64_t dropped_lines() const { return dropped_before_ + spool_.dropped_lines() + lost_lines_; }
  std::function<void()> on_room;  // has_room() is true again
  std::function<void()> on_idle;
  std::function<void(int error)> on_lost;  // a file on a full disk: called at the first line that is lost

  // Writes what the descriptor takes now; for when the loop does not run. to_poll() is what to poll then.
  void flush_some();
  pollfd to_poll() const;

 private:
  enum class Access {
    kDirect,       // /dev/null: a write does not wait; or a regular file when no thread can be started
    kFile,         // a regular file: a thread writes it
    kNonblocking,  // a pipe or terminal, opened anew
    kSocket,       // MSG_DONTWAIT
    kPolled,       // neither was possible: poll, then a write that fits
  };

  void classify();
  void schedule();
  void pass_on();
  void write_queue();
  bool start_appender();
  void hand_over();
  ssize_t write_once(std::string_view bytes);
  void handle_error(int error, uint64_t lost_before = 0);
  void refill();
  void catch_up();
  void fall_behind();
  void open_spool();
  void pace();
  void draw_live_line();
  void update_watch();
  void notify();
  size_t queued() const { return queue_.size() - head_; }

  net::EventLoop& loop_;
  int fd_;
  Fd own_;  // the same file, opened anew
  Access access_ = Access::kDirect;
  bool terminal_ = false;
  bool pipe_ = false;
  bool enlarged_ = false;
  bool broken_ = false;

  std::unique_ptr<Appender> appender_;  // of a regular file, from its first byte on

  std::string queue_;  // next to be written, from head_ on
  size_t head_ = 0;
  bool behind_ = false;
  std::string incoming_;   // on its way to the spool
  std::string own_words_;  // what muster said while the spool was full; follows it
  CappedFile spool_;
  uint64_t spool_read_ = 0;
  uint64_t dropped_said_ = 0;    // of spool_
  uint64_t dropped_before_ = 0;  // by spools that could not be made
  std::string spool_directory_ = temporary_directory();
  uint64_t spool_cap_ = uint64_t{1} << 30;
  bool holds_back_ = false;

  bool scheduled_ = false;
  bool watching_ = false;
  bool full_ = false;  // there is no room, and patience_ runs
  bool busy_ = false;  // on_idle is owed
  net::EventLoop::TimerId patience_ = 0;
  Pacer pacer_;  // while behind
  net::EventLoop::TimerId pace_timer_ = 0;

  const void* writer_ = nullptr;
  bool at_line_start_ = true;
  size_t begun_ = 0;  // size of the buffer that begin() returned
  std::string live_line_, live_tail_;
  bool live_drawn_ = false;
  uint64_t lost_lines_ = 0;                                     // the descriptor itself is a file on a full disk
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for deferred calls
};

// What fits into `columns` of a terminal: escape sequences take no room, a UTF-8 sequence one column. Pure.
std::string_view fit_columns(std::string_view text, size_t columns);
// Both, where `text` gives way to `tail`: "a long te…, the end". Pure.
std::string fit_columns(std::string_view text, std::string_view tail, size_t columns);

}  // namespace muster::output
