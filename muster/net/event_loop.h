#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/fd.h"

namespace muster::net {

// One thread's epoll loop: descriptors, timers, and work to do after the current event. Every call comes from the
// thread that runs the loop. Handlers may watch, unwatch (themselves included), close descriptors and stop the loop.
class EventLoop {
 public:
  using IoHandler = std::function<void(uint32_t epoll_events)>;
  using Task = std::function<void()>;
  using TimerId = uint64_t;

  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Level-triggered unless `events` has EPOLLET. The loop does not own `fd`; unwatch it before closing it.
  void watch(int fd, uint32_t events, IoHandler handler);
  void rearm(int fd, uint32_t events);
  void unwatch(int fd);
  bool watches(int fd) const;

  // Runs once, not before `when`. Cancelling a timer that has run is allowed and does nothing.
  TimerId call_at(TimePoint when, Task task);
  TimerId call_after(Duration delay, Task task) { return call_at(Clock::now() + delay, std::move(task)); }
  void cancel(TimerId timer);

  // Runs after the handlers of the current wake-up, before the next wait.
  void defer(Task task);

  // Runs at the end of every wake-up, after everything else, until it is removed. For work that the handlers of a
  // wake-up collect. May not add or remove hooks.
  using HookId = uint64_t;
  HookId add_end_hook(Task task);
  void remove_end_hook(HookId hook);

  // Runs until stop() is called.
  void run();
  // Runs until stop() is called or the deadline has passed; true if stopped.
  bool run_until(Deadline deadline);
  void stop() { stopped_ = true; }

  // The time of the current wake-up: cheaper than Clock::now() and the same for every handler of it.
  TimePoint now() const { return now_; }

 private:
  struct Watch {
    uint32_t generation;
    IoHandler handler;
  };

  void wait_and_dispatch(TimePoint until);
  void run_timers();
  void run_deferred();
  TimePoint next_wakeup(TimePoint until) const;

  Fd epoll_;
  std::vector<std::shared_ptr<Watch>> watches_;  // by descriptor; shared so that a handler may unwatch itself
  uint32_t next_generation_ = 1;
  std::map<std::pair<TimePoint, TimerId>, Task> timers_;
  std::map<TimerId, TimePoint> timer_times_;
  TimerId next_timer_ = 1;
  std::vector<Task> deferred_;
  std::vector<Task> deferred_running_;  // kept for its memory; empty except in run_deferred()
  std::map<HookId, Task> end_hooks_;
  HookId next_hook_ = 1;
  std::vector<epoll_event> ready_;
  TimePoint now_ = Clock::now();
  bool stopped_ = false;
};

}  // namespace muster::net
