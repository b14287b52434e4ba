#include "muster/container/node.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/utsname.h>
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

std::string host_name() {
  utsname names{};
  return ::uname(&names) == 0 ? names.nodename : "unknown";
}

}  // namespace

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

Node this_node(Kind kind) {
  Node node{.uid = ::geteuid(), .gid = ::getegid(), .user = user_name(), .host = host_name()};
  if (exists("/dev/nvidiactl")) {
    node.gpus = Gpus::kNvidia;
    node.cdi = has_cdi();
  } else if (exists("/dev/kfd")) {
    node.gpus = Gpus::kAmd;
  }
  // Not in the home directory, which nodes may share. /var/tmp outlives a reboot, as the containers of enroot do.
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

}  // namespace muster::container
