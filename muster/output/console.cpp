#include "muster/output/console.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <iterator>
#include <utility>

#include "muster/base/strings.h"
#include "muster/output/console_sink.h"
#include "muster/output/descriptor_outlet.h"

namespace muster::output {
namespace {

std::string coloured_prefix(LogLevel level) {
  std::string_view prefix = log_prefix(level);
  if (level == LogLevel::kWarning) return fmt::format("\x1b[33m{}\x1b[0m", prefix);
  if (level == LogLevel::kError) return fmt::format("\x1b[31m{}\x1b[0m", prefix);
  return std::string(prefix);
}

bool same_file(int one, int other) {
  struct stat first {
  }, second{};
  if (::fstat(one, &first) != 0 || ::fstat(other, &second) != 0) return false;
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino && first.st_rdev == second.st_rdev;
}

}  // namespace

std::string torchrun_prefix(LogLevel level) {
  constexpr char kLetters[] = {'D', 'I', 'W', 'E'};
  auto now = std::chrono::system_clock::now().time_since_epoch();
  std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now).count() % 1'000'000;
  std::tm local{};
  ::localtime_r(&seconds, &local);
  return fmt::format("{}{:02}{:02} {:02}:{:02}:{:02}.{:06} {} muster] ", kLetters[static_cast<int>(level)],
                     local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec, micros, ::getpid());
}

Console::Console(net::EventLoop& loop, Options options)
    : options_(std::move(options)),
      log_([this](LogLevel level, std::string_view text) { say(level, text); }, options_.threshold) {
  ::signal(SIGPIPE, SIG_IGN);
  auto open = [&](size_t stream, int fd) {
    Outlet*& outlet = options_.outlets[stream];
    if (outlet == nullptr) {
      descriptors_[stream] = std::make_unique<DescriptorOutlet>(loop, fd);
      outlet = descriptors_[stream].get();
    }
    return std::make_shared<ConsoleSink>(loop, *outlet);
  };
  const bool same = options_.outlets[0] == nullptr && same_file(options_.stdout_fd, options_.stderr_fd);
  sinks_[0] = open(0, options_.stdout_fd);
  sinks_[1] = same ? sinks_[0] : open(1, options_.stderr_fd);
  if (same) return;
  sinks_[0]->on_lost = [this](int error) { log_.warn("lines of stdout are being lost: {}", ::strerror(error)); };
}

Console::~Console() = default;

void Console::say(LogLevel level, std::string_view text) {
  std::string prefix = options_.torchrun_style ? torchrun_prefix(level)
                       : options_.colour       ? coloured_prefix(level)
                                               : std::string(log_prefix(level));
  if (!options_.speaker.empty()) prefix += options_.speaker + ": ";
  std::string lines;
  for (std::string_view line : split(text, '\n')) {
    lines += prefix;
    lines += line;
    lines += '\n';
  }
  write(job::Stream::kStderr, lines);
}

bool Console::is_terminal(job::Stream stream) const { return sink(stream).is_terminal() || columns(stream) > 0; }

void Console::set_spool(const std::string& directory, uint64_t cap) {
  for (auto& sink : sinks_) sink->set_spool(directory, cap);
}

void Console::hold_back() {
  for (auto& sink : sinks_) sink->hold_back();
}

std::string& Console::begin(job::Stream stream, const void* writer) { return sink(stream).begin(writer); }
void Console::commit(job::Stream stream) { sink(stream).commit(); }
bool Console::line_open_by(job::Stream stream, const void* writer) const { return sink(stream).line_open_by(writer); }
void Console::disown_line(job::Stream stream, const void* writer) { sink(stream).disown_line(writer); }
void Console::write(job::Stream stream, std::string_view text) { sink(stream).say(text); }

void Console::set_live_line(std::string text, std::string tail) {
  if (options_.live_line) return options_.live_line(text + tail);
  sink(is_terminal(job::Stream::kStderr) ? job::Stream::kStderr : job::Stream::kStdout)
      .set_live_line(std::move(text), std::move(tail));
}

bool Console::has_room(job::Stream stream) const { return sink(stream).has_room(); }

void Console::on_room(const std::function<void()>& callback) {
  for (auto& sink : sinks_) sink->on_room = callback;
}

void Console::flush(Deadline deadline) {
  while (true) {
    pollfd writable[2];
    nfds_t count = 0;
    for (auto& sink : sinks_) {
      sink->flush_some();
      // Both at once: a stuck stdout must not keep what we have to say on stderr.
      if (!sink->idle()) writable[count++] = sink->to_poll();
    }
    if (count == 0 || deadline.passed()) return;
    ::poll(writable, count, deadline.poll_timeout());
  }
}

bool Console::broken(job::Stream stream) const { return sink(stream).broken(); }
bool Console::idle() const { return sinks_[0]->idle() && sinks_[1]->idle(); }

bool Console::idle_or_stuck(Duration lasting) const {
  return std::all_of(std::begin(sinks_), std::end(sinks_),
                     [&](const auto& sink) { return sink->idle() || !sink->stuck_file(lasting).empty(); });
}

void Console::on_idle(std::function<void()> callback) {
  auto when_both = [this, callback = std::move(callback)] {
    if (callback && idle()) callback();
  };
  for (auto& sink : sinks_) sink->on_idle = when_both;
}

uint64_t Console::dropped_lines() const {
  uint64_t lines = sinks_[0]->dropped_lines();
  return sinks_[0] == sinks_[1] ? lines : lines + sinks_[1]->dropped_lines();
}

void Console::say_what_stdout_lost() {
  if (sinks_[0] == sinks_[1]) return;
  if (uint64_t lines = sinks_[0]->dropped_lines(); lines > 0)
    log_.warn("stdout has lost {} {}", lines, lines == 1 ? "line" : "lines");
  const uint64_t bytes = sinks_[0]->unwritten();
  if (bytes == 0) return;
  const std::string stuck = sinks_[0]->stuck_file({});
  log_.warn("stdout: the last {} bytes are lost: {}", bytes,
            stuck.empty() ? "its reader has stopped reading"
                          : fmt::format("{} is on a file system that does not respond", stuck));
}

}  // namespace muster::output
