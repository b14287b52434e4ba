#include "muster/base/socket_directory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "muster/base/environment.h"

namespace muster {

std::vector<std::string> socket_directories() {
  std::vector<std::string> all;
  if (auto runtime = environment_variable("XDG_RUNTIME_DIR"); runtime && runtime->starts_with('/'))
    all.push_back(*runtime + "/muster");
  std::string usual = fmt::format("/run/user/{}/muster", ::geteuid());
  if (std::find(all.begin(), all.end(), usual) == all.end()) all.push_back(std::move(usual));
  all.push_back(fmt::format("/tmp/muster-{}", ::geteuid()));
  return all;
}

Result<void> check_socket_directory(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return system_error(errno, path);
  if (!S_ISDIR(status.st_mode)) return Error{ErrorKind::kSystem, fmt::format("{} is not a directory", path), {}};
  if (status.st_uid != ::geteuid())
    return Error{ErrorKind::kSystem, fmt::format("{} belongs to another user", path), {}};
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return Error{ErrorKind::kSystem, fmt::format("{} is open to others", path), fmt::format("chmod 700 {}", path)};
  return {};
}

Result<std::string> make_socket_directory() {
  Error last{ErrorKind::kSystem, "no private directory for sockets", {}};
  for (const std::string& path : socket_directories()) {
    if (::mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
      last = system_error(errno, path);
      continue;
    }
    auto good = check_socket_directory(path);
    if (good) return path;
    last = good.error();
  }
  return last;
}

}  // namespace muster
