#include "muster/base/fd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace muster {

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<std::string> read_file(const std::string& path, size_t limit) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return system_error(errno, path);
  std::string text;
  char buffer[16384];
  while (text.size() < limit) {
    ssize_t n = ::read(fd.get(), buffer, std::min(sizeof buffer, limit - text.size()));
    if (n < 0) {
      if (errno == EINTR) continue;
      return system_error(errno, path);
    }
    if (n == 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  return text;
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
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) return system_error(errno, fmt::format("cannot write {}", path));
  return write_all(fd.get(), text.data(), text.size());
}

}  // namespace muster
