#include "muster/agent/warden_link.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "muster/base/error.h"

namespace muster::agent {

struct WardenLink::Page {
  std::atomic<bool> ready{false};
  std::atomic<int64_t> pulse{0};
  std::atomic<int64_t> lease_until{0};
  std::atomic<bool> lease_has_ended{false};
  std::atomic<int> exit_code{-1};  // -1: none yet
  Terms terms;                     // written before `ready`, never after
};

WardenLink::WardenLink() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  void* memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  MUSTER_CHECK(memory != MAP_FAILED && wake_);
  page_ = new (memory) Page;
}

WardenLink::~WardenLink() { ::munmap(page_, sizeof(Page)); }

void WardenLink::set_terms(const Terms& terms) {
  page_->terms = terms;
  pulse(Clock::now());
  extend_lease(terms.since + terms.lease);
  page_->ready.store(true, std::memory_order_release);
  wake();
}

void WardenLink::set_exit_code(int code) {
  page_->exit_code.store(code, std::memory_order_release);
  wake();
}

std::optional<int> WardenLink::exit_code() const {
  const int code = page_->exit_code.load(std::memory_order_acquire);
  return code < 0 ? std::nullopt : std::optional(code);
}

void WardenLink::wake() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void WardenLink::take_wake() {
  uint64_t count;
  [[maybe_unused]] ssize_t size = ::read(wake_.get(), &count, sizeof count);
}

void WardenLink::pulse(TimePoint now) { page_->pulse.store(now.time_since_epoch().count(), std::memory_order_relaxed); }

void WardenLink::end_lease() { page_->lease_has_ended.store(true, std::memory_order_relaxed); }

bool WardenLink::lease_has_ended() const { return page_->lease_has_ended.load(std::memory_order_relaxed); }

TimePoint WardenLink::lease_until() const {
  if (lease_has_ended()) return TimePoint::max();
  return TimePoint(Duration(page_->lease_until.load(std::memory_order_relaxed)));
}

void WardenLink::extend_lease(TimePoint until) {
  page_->lease_until.store(until.time_since_epoch().count(), std::memory_order_relaxed);
}

std::optional<WardenLink::Terms> WardenLink::terms() const {
  if (!page_->ready.load(std::memory_order_acquire)) return std::nullopt;
  return page_->terms;
}

TimePoint WardenLink::last_pulse() const { return TimePoint(Duration(page_->pulse.load(std::memory_order_relaxed))); }

}  // namespace muster::agent
