#include "muster/base/fd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "muster/base/clock.h"

namespace muster {

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

namespace {

constexpr auto kReaderPatience = std::chrono::seconds(2);

Result<std::string> read_all(int fd, const std::string& path, size_t limit) {
  std::string text;
  char buffer[16384];
  while (text.size() < limit) {
    ssize_t n = ::read(fd, buffer, std::min(sizeof buffer, limit - text.size()));
    if (n < 0) {
      if (errno == EINTR) continue;
      return system_error(errno, path);
    }
    if (n == 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  return text;
}

}  // namespace

Result<std::string> read_file(const std::string& path, size_t limit) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return system_error(errno, path);
  return read_all(fd.get(), path, limit);
}

Result<std::string> read_regular_file(const std::string& path, size_t limit) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return system_error(errno, path);
  if (!S_ISREG(status.st_mode)) return Error{ErrorKind::kSystem, fmt::format("{} is not a regular file", path), {}};
  return read_all(fd.get(), path, limit);
}

Result<Fd> memory_file(std::string_view text) {
  Fd file(::memfd_create("muster", MFD_CLOEXEC));
  if (!file) return system_error(errno, "memfd_create");
  MUSTER_TRY_VOID(write_all(file.get(), text.data(), text.size()));
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return system_error(errno, "lseek");
  return file;
}

Result<void> set_nonblocking(int fd, bool on) {
  int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return system_error(errno, "fcntl(F_GETFL)");
  flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
  if (::fcntl(fd, F_SETFL, flags) < 0) return system_error(errno, "fcntl(F_SETFL)");
  return {};
}

Result<void> write_all(int fd, const void* data, size_t size) {
  auto* next = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t n = ::write(fd, next, size);
    if (n < 0) {
      if (errno == EINTR) continue;
      return system_error(errno, "write");
    }
    next += n;
    size -= static_cast<size_t>(n);
  }
  return {};
}

Result<void> write_whole_file(const std::string& path, const std::string& text) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
  auto failed = [&](int error) { return system_error(error, fmt::format("cannot write {}", path)); };
  if (!fd) return failed(errno);
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t n = ::write(fd.get(), rest.data(), rest.size());
    if (n >= 0) {
      rest.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd writable{fd.get(), POLLOUT, 0};
      if (::poll(&writable, 1, Deadline::in(kReaderPatience).poll_timeout()) == 0)
        return Error{ErrorKind::kTimeout, fmt::format("cannot write {}: its reader does not read", path), {}};
    } else if (errno != EINTR) {
      return failed(errno);
    }
  }
  return {};
}

}  // namespace muster
