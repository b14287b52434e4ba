#include "muster/net/event_loop.h"

#include <cerrno>
#include <chrono>
#include <utility>

namespace muster::net {
namespace {

constexpr size_t kEventsPerWait = 256;

// A descriptor number may be reused within one batch of events; the generation tells a stale event from a new one.
uint64_t tag(int fd, uint32_t generation) { return (uint64_t{generation} << 32) | static_cast<uint32_t>(fd); }

}  // namespace

EventLoop::EventLoop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)), ready_(kEventsPerWait) { MUSTER_CHECK(epoll_); }

EventLoop::~EventLoop() = default;

void EventLoop::watch(int fd, uint32_t events, IoHandler handler) {
  MUSTER_CHECK(fd >= 0);
  if (watches_.size() <= static_cast<size_t>(fd)) watches_.resize(static_cast<size_t>(fd) + 1);
  auto& slot = watches_[static_cast<size_t>(fd)];
  MUSTER_CHECK(!slot);
  slot = std::make_shared<Watch>(Watch{next_generation_++, std::move(handler)});
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag(fd, slot->generation);
  MUSTER_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
}

void EventLoop::rearm(int fd, uint32_t events) {
  MUSTER_CHECK(watches(fd));
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag(fd, watches_[static_cast<size_t>(fd)]->generation);
  MUSTER_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0);
}

void EventLoop::unwatch(int fd) {
  if (!watches(fd)) return;
  watches_[static_cast<size_t>(fd)].reset();
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

bool EventLoop::watches(int fd) const {
  return fd >= 0 && static_cast<size_t>(fd) < watches_.size() && watches_[static_cast<size_t>(fd)] != nullptr;
}

EventLoop::TimerId EventLoop::call_at(TimePoint when, Task task) {
  TimerId id = next_timer_++;
  timers_.emplace(std::pair(when, id), std::move(task));
  timer_times_.emplace(id, when);
  return id;
}

void EventLoop::cancel(TimerId timer) {
  auto found = timer_times_.find(timer);
  if (found == timer_times_.end()) return;
  timers_.erase({found->second, timer});
  timer_times_.erase(found);
}

void EventLoop::defer(Task task) { deferred_.push_back(std::move(task)); }

EventLoop::HookId EventLoop::add_end_hook(Task task) {
  end_hooks_.emplace(next_hook_, std::move(task));
  return next_hook_++;
}

void EventLoop::remove_end_hook(HookId hook) { end_hooks_.erase(hook); }

void EventLoop::run() { run_until(Deadline::at(TimePoint::max())); }

bool EventLoop::run_until(Deadline deadline) {
  stopped_ = false;
  while (!stopped_) {
    wait_and_dispatch(next_wakeup(deadline.time()));
    if (!stopped_) run_timers();
    run_deferred();
    for (auto& [id, hook] : end_hooks_) hook();
    if (!stopped_ && now_ >= deadline.time()) return false;
  }
  return true;
}

TimePoint EventLoop::next_wakeup(TimePoint until) const {
  if (!deferred_.empty()) return TimePoint::min();
  return timers_.empty() ? until : std::min(until, timers_.begin()->first.first);
}

void EventLoop::wait_and_dispatch(TimePoint until) {
  int timeout = until == TimePoint::max() ? -1 : until == TimePoint::min() ? 0 : Deadline::at(until).poll_timeout();
  int count = ::epoll_wait(epoll_.get(), ready_.data(), static_cast<int>(ready_.size()), timeout);
  now_ = Clock::now();
  MUSTER_CHECK(count >= 0 || errno == EINTR);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = ready_[static_cast<size_t>(i)];
    auto fd = static_cast<size_t>(event.data.u64 & 0xffffffff);
    std::shared_ptr<Watch> watch = watches_[fd];
    if (!watch || watch->generation != event.data.u64 >> 32) continue;
    watch->handler(event.events);
  }
}

void EventLoop::run_timers() {
  while (!timers_.empty() && timers_.begin()->first.first <= now_) {
    auto node = timers_.extract(timers_.begin());
    timer_times_.erase(node.key().second);
    node.mapped()();
    if (stopped_) return;
  }
}

void EventLoop::run_deferred() {
  deferred_running_.swap(deferred_);
  for (Task& task : deferred_running_) task();
  deferred_running_.clear();
}

}  // namespace muster::net
