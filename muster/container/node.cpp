#include "muster/container/node.h"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "muster/base/strings.h"

namespace muster::container {
namespace {

namespace fs = std::filesystem;

bool has_cdi() {
  std::error_code error;
  for (const char* folder : {"/etc/cdi", "/var/run/cdi"})
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
      if (it->path().filename().string().find("nvidia") != std::string::npos) return true;
  return false;
}

std::string user_name() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry != nullptr ? entry->pw_name : std::to_string(::geteuid());
}

}  // namespace

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

Node this_node(Kind kind) {
  Node node{.uid = ::geteuid(), .gid = ::getegid(), .user = user_name()};
  if (exists("/dev/nvidiactl")) {
    node.gpus = Gpus::kNvidia;
    node.cdi = has_cdi();
  } else if (exists("/dev/kfd")) {
    node.gpus = Gpus::kAmd;
  }
  // Of this node, not of a shared home: "once a node". /var/tmp outlives a reboot, as the containers of enroot do.
  node.storage = fmt::format("/var/tmp/muster-{}/{}", node.uid, name_of(kind));
  return node;
}

Result<void> make_own_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return system_error(errno, fmt::format("cannot make {}", path));
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return system_error(errno, path);
  if (S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() && (status.st_mode & 022) == 0) return {};
  return Error{ErrorKind::kSystem, fmt::format("{} is not a directory of ours alone", path),
               fmt::format("remove it: rm -r {}", shell_quote(path))};
}

Result<Fd> take_turn(const std::string& path, Deadline deadline, int launcher, const std::function<void()>& waiting) {
  constexpr int kPeriodMs = 50;
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) return system_error(errno, fmt::format("cannot open {}", path));
  for (bool said = false; ::flock(file.get(), LOCK_EX | LOCK_NB) != 0; said = true) {
    if (errno != EWOULDBLOCK && errno != EINTR) return system_error(errno, fmt::format("cannot lock {}", path));
    if (deadline.passed())
      return Error{ErrorKind::kTimeout, fmt::format("another muster holds {} and does not end", path), {}};
    if (!said && waiting) waiting();
    pollfd gone{.fd = launcher, .events = POLLRDHUP, .revents = 0};
    if (::poll(&gone, 1, kPeriodMs) > 0) return Error{ErrorKind::kPeer, "the launcher is gone", {}};
  }
  return file;
}

}  // namespace muster::container
