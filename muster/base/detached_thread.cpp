#include "muster/base/detached_thread.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <thread>
#include <utility>

#include "muster/base/error.h"

namespace muster {

Result<void> start_detached_thread(std::function<void()> body, std::string what) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<void> started;
  try {
    std::thread(std::move(body)).detach();
  } catch (const std::system_error& error) {
    started = no_process_error(error.code().value(), std::move(what));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace muster
