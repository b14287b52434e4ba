#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/fd.h"
#include "muster/net/event_loop.h"

namespace muster::agent {

// One line of torch's FileTimerClient: {"version": 1, "pid": 7, "scope_id": "step", "expiration_time": 1.7e9,
// "signal": 9}. A negative expiration takes the timer back.
struct TimerRequest {
  int pid = 0;
  std::string scope;
  double expires = -1;  // unix seconds
  int signal = 0;       // 0 or less: nothing is to be sent
  bool operator==(const TimerRequest&) const = default;
};
// Untrusted bytes; nothing for what is no request.
std::optional<TimerRequest> parse_timer_request(std::string_view line);

// The timers that are set, one for each process and scope. Pure.
class TimerTable {
 public:
  void apply(TimerRequest request);
  // Takes out what has expired. Of a process only the first that has a signal is returned, and all its timers go.
  std::vector<TimerRequest> take_expired(double now);
  std::optional<double> next_expiry() const;
  void clear() { timers_.clear(); }

 private:
  std::map<std::pair<int, std::string>, TimerRequest> timers_;
};

// Torch's file timers (TORCHELASTIC_ENABLE_FILE_TIMER=1): workers write requests into a named pipe, and whoever lets
// a timer expire gets the signal it named. Unlike torch's own server this one looks when a timer is due, not every
// tenth of a second, and ends the worker, not itself.
class FileTimers {
 public:
  using OnExpired = std::function<void(const TimerRequest&)>;

  // Makes the pipe (0600) anew and removes it in the end.
  static Result<std::unique_ptr<FileTimers>> open(net::EventLoop& loop, std::string path, OnExpired on_expired);
  // The same if the environment asks for it, as torch reads it; null if not.
  static Result<std::unique_ptr<FileTimers>> open_if_asked(net::EventLoop& loop, const Environment& environment,
                                                           OnExpired on_expired);
  ~FileTimers();
  FileTimers(const FileTimers&) = delete;
  FileTimers& operator=(const FileTimers&) = delete;

  const std::string& path() const { return path_; }
  // A new round begins: what the last one set does not count.
  void clear();

 private:
  FileTimers(net::EventLoop& loop, std::string path, Fd pipe, OnExpired on_expired);
  void read();
  void check();

  net::EventLoop& loop_;
  std::string path_;
  Fd pipe_;
  OnExpired on_expired_;
  TimerTable table_;
  std::string partial_;
  net::EventLoop::TimerId timer_ = 0;
};

// <TMPDIR>/watchdog_timer_<uuid4>, as torch names it.
std::string default_timer_file();

}  // namespace muster::agent
