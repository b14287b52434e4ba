#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/result.h"

namespace muster {

// Starts a thread that is never joined: if a system call blocks it for ever, the process continues without it. It
// blocks all signals, so that they go to the thread that handles them. `body` must own what it uses. An error names the
// limit of processes if that is why; `what` says what the thread is for: "cannot start the thread that writes log
// files".
Result<void> start_detached_thread(std::function<void()> body, std::string what);

// Calls `call` on a new thread and waits for it until the deadline. Empty: it has not returned. It may return at any
// time later, so `call` must own what it uses. A pause of the whole process hardly counts, because `call` is paused
// too. If no thread can be started, the caller's own thread makes the call, without a deadline.
template <typename Answer>
std::optional<Answer> call_with_deadline(Deadline deadline, std::function<Answer()> call) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable returned;
    std::optional<Answer> answer;
  };
  auto shared = std::make_shared<Shared>();
  std::chrono::milliseconds left(deadline.poll_timeout());
  auto started = start_detached_thread(
      [shared, call] {
        Answer answer = call();
        std::lock_guard lock(shared->mutex);
        shared->answer = std::move(answer);
        shared->returned.notify_one();
      },
      "cannot start a thread");
  if (!started) return call();
  std::unique_lock lock(shared->mutex);
  // Waits in short turns: a pause of the process uses at most one turn.
  constexpr auto kTurn = std::chrono::milliseconds(50);
  for (; !shared->answer && left.count() > 0; left -= kTurn)
    shared->returned.wait_for(lock, std::min(left, kTurn), [&] { return shared->answer.has_value(); });
  return std::move(shared->answer);
}

}  // namespace muster
