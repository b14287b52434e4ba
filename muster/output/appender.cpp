#include "muster/output/appender.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string_view>
#include <utility>

#include "muster/base/detached_thread.h"
#include "muster/base/fd.h"

namespace muster::output {
namespace {

constexpr size_t kPiece = 256 << 10;  // one write: a slow disk is not taken for one that does nothing

}  // namespace

// Both threads', under `mutex`, but for `file` and `writing`, which are the thread's.
struct Appender::Shared {
  Fd file;
  std::string writing;
  std::mutex mutex;
  std::condition_variable work;
  std::string next;
  size_t left = 0;  // of `writing`
  TimePoint began;  // of the write that goes on while `left` is not 0
  int error = 0;
  uint64_t lost_lines = 0;
  bool ending = false;
  Fd done{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  void serve();
  void write_all(std::unique_lock<std::mutex>& lock);
};

void Appender::Shared::serve() {
  std::unique_lock lock(mutex);
  for (;;) {
    work.wait(lock, [this] { return ending || !next.empty(); });
    if (next.empty()) break;
    std::swap(next, writing);  // their memory is used again
    write_all(lock);
    writing.clear();
    if (next.empty()) (void)::eventfd_write(done.get(), 1);
  }
  lock.unlock();
  file.reset();  // here, since closing may block too
}

void Appender::Shared::write_all(std::unique_lock<std::mutex>& lock) {
  std::string_view rest = writing;
  for (left = rest.size(); left > 0; left = rest.size()) {
    began = Clock::now();
    lock.unlock();
    const ssize_t n = ::write(file.get(), rest.data(), std::min(rest.size(), kPiece));
    const int failure = n < 0 && errno != EINTR ? errno : 0;
    lock.lock();
    if (n > 0) rest.remove_prefix(static_cast<size_t>(n));
    if (failure == 0) continue;
    error = failure;
    lost_lines += static_cast<uint64_t>(std::count(rest.begin(), rest.end(), '\n'));
    rest = {};
  }
}

Appender::Appender(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

Result<std::unique_ptr<Appender>> Appender::start(int fd) {
  auto shared = std::make_shared<Shared>();
  shared->file.reset(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!shared->file || !shared->done) return system_error(errno, "cannot duplicate a descriptor");
  MUSTER_TRY_VOID(start_detached_thread([shared] { shared->serve(); }, "cannot start a thread that writes a file"));
  return std::unique_ptr<Appender>(new Appender(std::move(shared)));
}

Appender::~Appender() {
  std::lock_guard lock(shared_->mutex);
  shared_->ending = true;
  shared_->work.notify_one();
}

void Appender::append(std::string& bytes) {
  std::lock_guard lock(shared_->mutex);
  if (shared_->next.empty()) {
    std::swap(shared_->next, bytes);
  } else {
    shared_->next += bytes;
    bytes.clear();
  }
  shared_->work.notify_one();
}

size_t Appender::waiting() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->left + shared_->next.size();
}

bool Appender::idle() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->left == 0 && shared_->next.empty() && shared_->error == 0;
}

std::optional<Appender::Failure> Appender::take_failure() {
  std::lock_guard lock(shared_->mutex);
  if (shared_->error == 0) return std::nullopt;
  return Failure{std::exchange(shared_->error, 0), std::exchange(shared_->lost_lines, 0)};
}

bool Appender::stuck(Duration lasting) const {
  std::lock_guard lock(shared_->mutex);
  return shared_->left > 0 && Clock::now() - shared_->began >= lasting;
}

std::string Appender::path() const {
  std::error_code error;  // /proc knows the name without asking the file system
  return std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", shared_->file.get()), error).string();
}

int Appender::done_fd() const { return shared_->done.get(); }

void Appender::clear_done() {
  eventfd_t count;
  (void)::eventfd_read(shared_->done.get(), &count);
}

bool Appender::wait(Deadline deadline) {
  while (waiting() > 0) {
    pollfd done{shared_->done.get(), POLLIN, 0};
    if (::poll(&done, 1, deadline.poll_timeout()) == 0) return waiting() == 0;
    clear_done();
  }
  return true;
}

}  // namespace muster::output
