#include "muster/output/descriptor_outlet.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

namespace muster::output {
namespace {

constexpr size_t kAppendedAtOnce = 256 << 10;  // while so much waits for the thread it gets no more
constexpr int kPipeSize = 1 << 20;             // of a pipe that was full once
// A file has no reader. A slow disk delays workers; one that does nothing for this long does not respond.
constexpr Duration kFilePatience = std::chrono::seconds(2);

ssize_t takes_no_more() {
  errno = EAGAIN;
  return -1;
}

}  // namespace

DescriptorOutlet::DescriptorOutlet(net::EventLoop& loop, int fd) : loop_(loop), fd_(fd) {
  struct stat status {};
  closed_ = ::fstat(fd_, &status) != 0;
  if (closed_) return;
  terminal_ = ::isatty(fd_) == 1;
  pipe_ = S_ISFIFO(status.st_mode);
  if (S_ISSOCK(status.st_mode)) {
    access_ = Access::kSocket;
  } else if (S_ISREG(status.st_mode)) {
    access_ = Access::kFile;
  } else if (terminal_ || pipe_) {
    // O_NONBLOCK is a property of the open file, which other processes share: open one of our own.
    std::string path = fmt::format("/proc/self/fd/{}", fd_);
    own_.reset(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    access_ = own_ ? Access::kNonblocking : Access::kPolled;
    if (own_) fd_ = own_.get();
  }
}

DescriptorOutlet::~DescriptorOutlet() { watch(false); }

ssize_t DescriptorOutlet::write(std::string_view bytes) {
  start_appender();
  switch (access_) {
    case Access::kFile:
      return append(bytes);
    case Access::kDirect:
      return ::write(fd_, bytes.data(), bytes.size());
    case Access::kNonblocking: {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      const bool full = written < 0 && errno == EAGAIN;
      return full && enlarge_pipe() ? ::write(fd_, bytes.data(), bytes.size()) : written;
    }
    case Access::kSocket:
      return ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    case Access::kPolled: {
      pollfd writable{fd_, POLLOUT, 0};
      if (::poll(&writable, 1, 0) != 1) return takes_no_more();
      return ::write(fd_, bytes.data(), std::min<size_t>(bytes.size(), PIPE_BUF));
    }
  }
  return -1;
}

bool DescriptorOutlet::enlarge_pipe() {
  return pipe_ && !std::exchange(enlarged_, true) && ::fcntl(fd_, F_SETPIPE_SZ, kPipeSize) > 0;
}

// If no thread can be started, the loop writes the file.
void DescriptorOutlet::start_appender() {
  if (access_ != Access::kFile || appender_) return;
  auto started = Appender::start(fd_);
  if (started) appender_ = *std::move(started);
  if (!appender_) access_ = Access::kDirect;
}

// The thread writes one part while the console gathers the next.
ssize_t DescriptorOutlet::append(std::string_view bytes) {
  if (appender_->waiting() >= kAppendedAtOnce) return takes_no_more();
  std::string taken(bytes);
  appender_->append(taken);
  return static_cast<ssize_t>(bytes.size());
}

void DescriptorOutlet::watch(bool wanted) {
  if (wanted) start_appender();
  if (wanted == (watched_ >= 0) || (wanted && always_takes())) return;
  if (!wanted) return loop_.unwatch(std::exchange(watched_, -1));
  const pollfd ready = to_poll();
  watched_ = ready.fd;
  loop_.watch(watched_, appender_ ? EPOLLIN : EPOLLOUT, [this](uint32_t) {
    if (appender_) appender_->clear_done();
    if (on_ready) on_ready();
  });
}

int DescriptorOutlet::columns() const {
  winsize size{};
  return ::ioctl(fd_, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

Duration DescriptorOutlet::patience() const { return access_ == Access::kFile ? kFilePatience : Outlet::patience(); }

pollfd DescriptorOutlet::to_poll() const {
  if (appender_) return {appender_->done_fd(), POLLIN, 0};
  return {fd_, POLLOUT, 0};
}

std::optional<Appender::Failure> DescriptorOutlet::take_failure() {
  return appender_ ? appender_->take_failure() : std::nullopt;
}

std::string DescriptorOutlet::stuck_file(Duration lasting) const {
  return appender_ && appender_->stuck(lasting) ? appender_->path() : std::string();
}

}  // namespace muster::output
