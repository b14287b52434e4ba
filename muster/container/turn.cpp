#include "muster/container/turn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "muster/base/printable.h"
#include "muster/base/strings.h"

namespace muster::container {
namespace {

// Lustre and NFS can be mounted without locks.
bool has_no_locks(int error) { return error == ENOSYS || error == EOPNOTSUPP || error == ENOLCK; }

// The holder may not have written its name yet.
std::string holder(const std::string& lock) {
  constexpr size_t kMost = 256;
  auto text = read_file(lock, kMost);
  const std::string name = text ? printable(trim(*text)) : "";
  return name.empty() ? "another muster" : name;
}

void write_name(int file, const std::string& host) {
  const std::string line = host + "\n";
  if (::ftruncate(file, 0) == 0) (void)!::pwrite(file, line.data(), line.size(), 0);  // a name is a convenience
}

Error too_late(const Turn& turn) {
  const std::string name = holder(turn.lock);
  return {ErrorKind::kTimeout,
          fmt::format("{}: {} did not finish making the container {} in time: it holds {}", turn.host, name,
                      turn.container, turn.lock),
          fmt::format("wait for {}, or raise --join-timeout", name)};
}

}  // namespace

Result<Fd> take(const Turn& turn) {
  constexpr int kPeriodMs = 50;
  Fd file(::open(turn.lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return system_error(errno, fmt::format("{}: cannot open {}", turn.host, turn.lock));
  for (bool said = false; ::flock(file.get(), LOCK_EX | LOCK_NB) != 0; said = true) {
    if (has_no_locks(errno)) return Fd();
    if (errno != EWOULDBLOCK && errno != EINTR)
      return system_error(errno, fmt::format("{}: cannot lock {}", turn.host, turn.lock));
    if (turn.deadline.passed()) return too_late(turn);
    if (!said && turn.waiting) turn.waiting(holder(turn.lock));
    pollfd gone{.fd = turn.launcher, .events = POLLRDHUP, .revents = 0};
    if (::poll(&gone, 1, kPeriodMs) > 0) return Error{ErrorKind::kPeer, "the launcher is gone", {}};
  }
  write_name(file.get(), turn.host);
  return file;
}

}  // namespace muster::container
