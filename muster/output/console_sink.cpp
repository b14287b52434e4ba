#include "muster/output/console_sink.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "muster/base/log.h"

namespace muster::output {
namespace {

constexpr size_t kBatch = 256 << 10;   // written at once, read from the spool at once
constexpr size_t kFull = 512 << 10;    // more than this in memory: no room
constexpr size_t kTooMuch = 4 << 20;   // more than this: no patience
constexpr size_t kOwnWords = 1 << 20;  // kept for later at most
constexpr int kWritesPerEvent = 8;     // then the other descriptors have their turn
constexpr std::string_view kClearLine = "\r\x1b[K";

}  // namespace

std::string_view fit_columns(std::string_view text, size_t columns) {
  size_t i = 0;
  for (size_t used = 0; i < text.size();) {
    if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      i += 2;
      while (i < text.size() && (text[i] < '@' || text[i] > '~')) ++i;
      if (i < text.size()) ++i;
      continue;
    }
    if (used == columns) break;
    ++used;
    ++i;
    while (i < text.size() && (text[i] & 0xc0) == 0x80) ++i;
  }
  return text.substr(0, i);
}

std::string fit_columns(std::string_view text, std::string_view tail, size_t columns) {
  size_t room = columns;
  for (std::string_view rest = tail; room > 0 && !rest.empty(); --room) rest.remove_prefix(fit_columns(rest, 1).size());
  std::string line(fit_columns(text, room));
  if (line.size() < text.size() && room > 0 && !tail.empty()) line = fmt::format("{}…", fit_columns(text, room - 1));
  return line.append(fit_columns(tail, columns));
}

ConsoleSink::ConsoleSink(net::EventLoop& loop, Outlet& outlet)
    : loop_(loop), outlet_(outlet), broken_(outlet.closed()) {
  outlet_.on_ready = [this] { catch_up(); };
}

ConsoleSink::~ConsoleSink() {
  outlet_.watch(false);
  outlet_.on_ready = nullptr;
  loop_.cancel(patience_);
  loop_.cancel(pace_timer_);
}

void ConsoleSink::set_spool(std::string directory, uint64_t cap) {
  if (!directory.empty()) spool_directory_ = std::move(directory);
  spool_cap_ = cap;
}

std::string& ConsoleSink::begin(const void* writer) {
  std::string& buffer = behind_ ? incoming_ : queue_;
  if (live_drawn_) {
    buffer += kClearLine;
    live_drawn_ = false;
  }
  if (!at_line_start_ && writer != writer_) {
    buffer += '\n';
    at_line_start_ = true;
  }
  writer_ = writer;
  begun_ = buffer.size();
  return buffer;
}

void ConsoleSink::commit() {
  const std::string& buffer = behind_ ? incoming_ : queue_;
  if (buffer.size() > begun_) at_line_start_ = buffer.back() == '\n';
  if (buffer.size() - (behind_ ? 0 : head_) >= kBatch) {
    pass_on();
  } else {
    schedule();
  }
  if (!behind_ && queued() > kTooMuch) fall_behind();
}

void ConsoleSink::say(std::string_view text) {
  if (broken_) return;
  std::string& buffer = begin(nullptr);
  if (behind_ && spool_.dropping()) {
    if (own_words_.size() < kOwnWords) own_words_ += text;
    at_line_start_ = true;
    return;
  }
  buffer += text;
  commit();
}

void ConsoleSink::set_live_line(std::string text, std::string tail) {
  if (!is_terminal() || (text == live_line_ && tail == live_tail_)) return;
  live_line_ = std::move(text);
  live_tail_ = std::move(tail);
  if (std::exchange(live_drawn_, false)) (behind_ ? incoming_ : queue_) += kClearLine;
  schedule();
}

void ConsoleSink::schedule() {
  busy_ = true;
  if (std::exchange(scheduled_, true)) return;
  loop_.defer([this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired() && scheduled_) pass_on();
  });
}

// Moves what was committed one step on: to the outlet, or to the spool.
void ConsoleSink::pass_on() {
  scheduled_ = false;
  if (broken_) {
    queue_.clear();
    incoming_.clear();
    head_ = 0;
    notify();
    return;
  }
  if (behind_) {
    pacer_.workers_wrote(incoming_.size());
    if (!incoming_.empty()) spool_.append(incoming_, loop_.now());
    incoming_.clear();
  } else {
    draw_live_line();
    write_queue();
  }
  notify();
}

void ConsoleSink::draw_live_line() {
  if (live_line_.empty() || live_drawn_ || !at_line_start_ || queued() >= kBatch) return;
  constexpr int kUsualColumns = 80;
  const int columns = outlet_.columns() > 1 ? outlet_.columns() : kUsualColumns;
  queue_ += fit_columns(live_line_, live_tail_, static_cast<size_t>(columns) - 1);
  queue_ += "\x1b[0m";
  live_drawn_ = true;
}

// Until the queue is empty, or the outlet takes no more for now.
void ConsoleSink::write_queue() {
  if (auto failure = outlet_.take_failure()) handle_error(failure->error, failure->lost_lines);
  // An outlet that never waits takes everything; the others have their turn after a few writes.
  for (int i = 0; queued() > 0 && (i < kWritesPerEvent || outlet_.always_takes()) && !broken_; ++i) {
    const ssize_t n = outlet_.write(std::string_view(queue_).substr(head_));
    if (n >= 0) {
      head_ += static_cast<size_t>(n);
      pacer_.reader_took(static_cast<size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      handle_error(errno);
    }
  }
  if (queued() == 0) {
    queue_.clear();
    head_ = 0;
  } else if (head_ >= kFull) {
    queue_.erase(0, head_);
    head_ = 0;
  }
  update_watch();
}

std::string ConsoleSink::stuck_file(Duration lasting) const {
  return broken_ ? std::string() : outlet_.stuck_file(lasting);
}

// `lost_before`: lines that were to be written before those of the queue.
void ConsoleSink::handle_error(int error, uint64_t lost_before) {
  if (error != ENOSPC && error != EDQUOT && error != EFBIG) {
    broken_ = true;  // the reader has gone
    live_line_.clear();
    spool_ = CappedFile();
    own_words_.clear();
    incoming_.clear();
    behind_ = false;
  } else {
    auto from = queue_.begin() + static_cast<std::ptrdiff_t>(head_);
    bool first = lost_lines_ == 0;
    lost_lines_ += lost_before + static_cast<uint64_t>(std::count(from, queue_.end(), '\n'));
    if (first && on_lost) on_lost(error);
  }
  queue_.clear();
  head_ = 0;
}

void ConsoleSink::update_watch() { outlet_.watch(!broken_ && (queued() > 0 || behind_ || !outlet_.idle())); }

// The outlet takes more.
void ConsoleSink::catch_up() {
  write_queue();
  for (int i = 0; behind_ && queued() == 0 && !broken_ && i < kWritesPerEvent; ++i) {
    refill();
    write_queue();
  }
  notify();
}

// The next piece of the spool; at its end we are up to date again.
void ConsoleSink::refill() {
  if (!incoming_.empty()) spool_.append(std::exchange(incoming_, {}), loop_.now());
  uint64_t left = spool_.size() - std::min(spool_.size(), spool_read_);
  if (left > 0) {
    queue_.resize(std::min<uint64_t>(left, kBatch));
    ssize_t n = ::pread(spool_.fd(), queue_.data(), queue_.size(), static_cast<off_t>(spool_read_));
    queue_.resize(n > 0 ? static_cast<size_t>(n) : 0);
    spool_read_ += queue_.size();
    if (n > 0) return;
    if (n < 0 && errno == EINTR) return;  // catch_up() comes again
    queue_ = fmt::format("{}{} bytes lost here: the spool in {} cannot be read ({})\n", log_prefix(LogLevel::kWarning),
                         left, spool_directory_, n < 0 ? ::strerror(errno) : "it has been truncated");
  }
  spool_.finish();
  if (uint64_t dropped = spool_.dropped_lines() - std::exchange(dropped_said_, spool_.dropped_lines()); dropped > 0) {
    queue_ += fmt::format("{}{} line{} dropped here: too slow a reader, and the spool in {} is full ({})\n",
                          log_prefix(LogLevel::kWarning), dropped, dropped == 1 ? "" : "s", spool_directory_,
                          spool_.reason());
  }
  queue_ += std::exchange(own_words_, {});
  spool_.reset();
  spool_read_ = 0;
  behind_ = false;
}

bool ConsoleSink::has_room() const {
  if (broken_) return true;
  if (!behind_) return queued() < kFull;
  const bool spool_is_full = holds_back_ && spool_cap_ > 0 && spool_.size() >= spool_cap_;  // a cap of 0: no limit
  return pacer_.has_room() && !spool_is_full;
}

bool ConsoleSink::idle() const { return broken_ || (queued() == 0 && !behind_ && outlet_.idle()); }

uint64_t ConsoleSink::unwritten() const {
  if (broken_) return 0;
  return outlet_.waiting() + queued() + incoming_.size() + spool_.size() - std::min(spool_.size(), spool_read_);
}

// Starts and stops waiting for a reader that is merely busy, and tells those who wait for us.
void ConsoleSink::notify() {
  if (!has_room()) {
    if (!std::exchange(full_, true) && !behind_) {
      patience_ = loop_.call_after(outlet_.patience(), [this] { fall_behind(); });
    }
  } else if (std::exchange(full_, false)) {
    loop_.cancel(patience_);
    if (on_room) on_room();
  }
  if (!idle()) {
    busy_ = true;
  } else if (std::exchange(busy_, false) && on_idle) {
    on_idle();
  }
}

void ConsoleSink::fall_behind() {
  if (behind_ || queued() < kFull) return;
  if (!spool_) open_spool();
  behind_ = true;
  pacer_ = Pacer();
  pace();
  update_watch();
  notify();
}

// The log directory may have been removed since it was named.
void ConsoleSink::open_spool() {
  dropped_before_ += spool_.dropped_lines();  // by one that could not be made
  dropped_said_ = 0;
  const uint64_t cap = holds_back_ ? 0 : spool_cap_;
  spool_ = CappedFile::create_unlinked(spool_directory_, cap);
  if (spool_ || spool_directory_ == temporary_directory()) return;
  spool_directory_ = temporary_directory();
  spool_ = CappedFile::create_unlinked(spool_directory_, cap);
}

void ConsoleSink::pace() {
  loop_.cancel(pace_timer_);  // of a time when we were behind, less than a tick ago
  pace_timer_ = loop_.call_after(Pacer::kTick, [this] {
    if (!behind_) return;
    pacer_.tick();
    notify();
    pace();
  });
}

void ConsoleSink::flush_some() {
  pass_on();
  catch_up();
}

}  // namespace muster::output
