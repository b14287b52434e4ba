#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/net/event_loop.h"
#include "muster/output/capped_file.h"
#include "muster/output/outlet.h"
#include "muster/output/pacer.h"

namespace muster::output {

// One stream of the console (stdout, stderr, or both if they are the same file), written to its outlet without ever
// blocking.
//
//   keeping up  --queue full for Outlet::patience()-->  behind  --spool read to its end-->  keeping up
//
// Keeping up, bytes go from memory straight to the outlet. Behind, they go to an unlinked temporary file in the
// order of arrival and from there to the outlet at the reader's pace. A full spool drops whole lines.
class ConsoleSink {
 public:
  // The outlet's owner keeps it until the sink is gone.
  ConsoleSink(net::EventLoop& loop, Outlet& outlet);
  ~ConsoleSink();
  ConsoleSink(const ConsoleSink&) = delete;
  ConsoleSink& operator=(const ConsoleSink&) = delete;

  bool is_terminal() const { return outlet_.is_terminal(); }
  // The spool is made when it is needed, in the temporary directory if `directory` is gone by then.
  void set_spool(std::string directory, uint64_t cap);
  // The writers wait while the spool holds its cap, and nothing is dropped for that. For writers that can wait.
  void hold_back() { holds_back_ = true; }

  // Append to what begin() returns, then commit(). A line that another writer left unfinished is ended first. Bytes
  // reach the outlet at the end of the current wake-up.
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
  uint64_t unwritten() const;  // bytes that wait for the outlet
  // A file whose file system has not responded for so long, or "": it is not stuck.
  std::string stuck_file(Duration lasting) const;
  bool broken() const { return broken_; }
  uint64_t dropped_lines() const { return dropped_before_ + spool_.dropped_lines() + lost_lines_; }
  std::function<void()> on_room;  // has_room() is true again
  std::function<void()> on_idle;
  std::function<void(int error)> on_lost;  // a file on a full disk: called at the first line that is lost

  // Writes what the outlet takes now; for when the loop does not run. to_poll() is what to poll then.
  void flush_some();
  pollfd to_poll() const { return outlet_.to_poll(); }

 private:
  void schedule();
  void pass_on();
  void write_queue();
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
  Outlet& outlet_;

  std::string queue_;  // next to be written, from head_ on
  size_t head_ = 0;
  std::string incoming_;   // on its way to the spool
  std::string own_words_;  // what muster said while the spool was full; follows it
  CappedFile spool_;
  uint64_t spool_read_ = 0;
  uint64_t dropped_said_ = 0;    // of spool_
  uint64_t dropped_before_ = 0;  // by spools that could not be made
  std::string spool_directory_ = temporary_directory();
  uint64_t spool_cap_ = uint64_t{1} << 30;

  bool broken_ = false;
  bool behind_ = false;
  bool holds_back_ = false;
  bool scheduled_ = false;
  bool full_ = false;  // there is no room, and patience_ runs
  bool busy_ = false;  // on_idle is owed
  bool at_line_start_ = true;
  bool live_drawn_ = false;
  net::EventLoop::TimerId patience_ = 0;
  Pacer pacer_;  // while behind
  net::EventLoop::TimerId pace_timer_ = 0;

  const void* writer_ = nullptr;
  size_t begun_ = 0;  // size of the buffer that begin() returned
  std::string live_line_, live_tail_;
  uint64_t lost_lines_ = 0;                                     // the outlet is a file on a full disk
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for deferred calls
};

// What fits into `columns` of a terminal: escape sequences take no room, a UTF-8 sequence one column. Pure.
std::string_view fit_columns(std::string_view text, size_t columns);
// Both, where `text` gives way to `tail`: "a long te…, the end". Pure.
std::string fit_columns(std::string_view text, std::string_view tail, size_t columns);

}  // namespace muster::output
