#include "muster/cluster/link.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "muster/base/pipe.h"

namespace muster::cluster {
namespace {

constexpr size_t kBuffer = 64 << 10;
constexpr size_t kLongestLine = 64 << 10;
constexpr int kLastReads = 64;  // when it has ended; somebody who inherited the pipe may write on and on
// A process that was killed is gone at once, unless the kernel holds it (a file system that hangs): then it is left.
constexpr Duration kKillTime = std::chrono::seconds(1);

struct Ends {
  Fd ours, theirs;
};

// A socket as stdin: unlike a pipe, a write to one whose reader is gone can be asked to raise no signal.
Result<Ends> make_input() {
  std::array<int, 2> fds{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0) return system_error(errno, "socketpair");
  Ends ends{Fd(fds[0]), Fd(fds[1])};
  MUSTER_TRY_VOID(set_nonblocking(ends.ours.get(), true));
  return ends;
}

// The end of the stream, or no more than nothing to read just now?
bool failed_read(ssize_t size) { return size == 0 || (errno != EAGAIN && errno != EINTR); }

}  // namespace

Result<std::shared_ptr<Link>> Link::open(net::EventLoop& loop, process::SpawnSpec spec, Kill kill, Handlers handlers) {
  std::shared_ptr<Link> link(new Link(loop, kill, std::move(handlers)));
  MUSTER_TRY_VOID(link->start(std::move(spec)));
  return link;
}

Result<void> Link::start(process::SpawnSpec spec) {
  Ends input;
  if (spec.stdin_fd < 0) {
    MUSTER_TRY(input, make_input());
    spec.stdin_fd = input.theirs.get();
  }
  MUSTER_TRY(Pipe output, make_pipe());
  MUSTER_TRY(Pipe said, make_pipe());
  spec.stdout_fd = output.write.get();
  spec.stderr_fd = said.write.get();
  MUSTER_TRY(child_, process::spawn(spec));
  closed_ = reaped_ = false;
  input_ = std::move(input.ours);
  output_ = std::move(output.read);
  said_ = std::move(said.read);
  watch_all();
  return {};
}

void Link::watch_all() {
  // The loop outlives the link, which unwatches all of this before it goes.
  loop_.watch(output_.get(), EPOLLIN, [this](uint32_t) {
    auto self = shared_from_this();
    read_said();  // what a login script said before the greeting is told before it
    if (read_output() == Read::kEnd) loop_.unwatch(output_.get());
  });
  loop_.watch(said_.get(), EPOLLIN, [this](uint32_t) {
    auto self = shared_from_this();
    if (read_said() == Read::kEnd) loop_.unwatch(said_.get());
  });
  loop_.watch(child_.pidfd.get(), EPOLLIN, [this](uint32_t) { tell_end(); });
}

Link::~Link() {
  close();
  if (reaped_) return;
  wait(Deadline::in(kKillTime));
  process::try_reap(child_);
}

void Link::write(std::string_view bytes) {
  if (closed_ || !input_) return;
  unsent_ += bytes;
  send_some();
}

void Link::send_some() {
  while (sent_ < unsent_.size()) {
    ssize_t sent = ::send(input_.get(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      if (!loop_.watches(input_.get())) loop_.watch(input_.get(), EPOLLOUT, [this](uint32_t) { send_some(); });
      return;
    }
    if (sent < 0) break;  // nobody reads any more: its end will tell
    sent_ += static_cast<size_t>(sent);
  }
  unsent_.clear();
  sent_ = 0;
  loop_.unwatch(input_.get());
}

void Link::close_input() {
  loop_.unwatch(input_.get());
  input_.reset();
}

void Link::signal(int number) const {
  if (!reaped_ && child_.pid > 0) kill(child_.pid, number);
}

bool Link::wait(Deadline deadline) const {
  if (reaped_) return true;
  pollfd entry{child_.pidfd.get(), POLLIN, 0};
  int result;
  do {
    result = poll(&entry, 1, deadline.poll_timeout());
  } while (result < 0 && errno == EINTR);
  return result > 0;
}

void Link::close() {
  if (closed_) return;
  closed_ = true;
  close_input();
  loop_.unwatch(output_.get());
  loop_.unwatch(said_.get());
  loop_.unwatch(child_.pidfd.get());
  if (!reaped_) end_it();
}

void Link::end_it() const {
  if (kill_ == Kill::kGroup) process::signal_group(child_.pid, SIGKILL);
  if (kill_ == Kill::kAlone) kill(child_.pid, SIGKILL);
}

Link::Read Link::read_output() {
  std::array<char, kBuffer> buffer;
  ssize_t size = closed_ ? 0 : ::read(output_.get(), buffer.data(), buffer.size());
  if (size <= 0) return failed_read(size) ? Read::kEnd : Read::kNothing;
  if (handlers_.output) handlers_.output({buffer.data(), static_cast<size_t>(size)});
  return Read::kSome;
}

Link::Read Link::read_said() {
  std::array<char, kBuffer> buffer;
  ssize_t size = closed_ ? 0 : ::read(said_.get(), buffer.data(), buffer.size());
  if (size <= 0) return failed_read(size) ? Read::kEnd : Read::kNothing;
  line_.append(buffer.data(), static_cast<size_t>(size));
  tell_lines();
  return Read::kSome;
}

void Link::tell_lines() {
  size_t begin = 0;
  while (!closed_) {
    size_t end = line_.find('\n', begin);
    bool whole = end != std::string::npos;
    if (!whole && line_.size() - begin < kLongestLine) break;
    std::string line = line_.substr(begin, whole ? end - begin : kLongestLine);
    begin += line.size() + (whole ? 1 : 0);
    if (!line.empty() && line.back() == '\r') line.pop_back();  // ssh ends its own lines so
    if (handlers_.said) handlers_.said(line);
  }
  line_.erase(0, begin);
}

void Link::tell_end() {
  auto self = shared_from_this();
  for (int i = 0; i < kLastReads && read_output() == Read::kSome; ++i) {
  }
  for (int i = 0; i < kLastReads && read_said() == Read::kSome; ++i) {
  }
  if (!line_.empty() && !closed_) {
    line_ += '\n';
    tell_lines();
  }
  if (closed_) return;
  end_it();  // while its number is still its own: what it started has nobody left to serve
  // Somebody else in this process may have collected it: then nobody knows how it ended.
  auto status = process::try_reap(child_).value_or(process::ExitStatus{.code = 255});
  reaped_ = true;
  close();
  if (handlers_.ended) handlers_.ended(status);
}

}  // namespace muster::cluster
