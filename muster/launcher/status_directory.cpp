#include "muster/launcher/status_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "muster/base/environment.h"

namespace muster::launcher {

std::string status_directory() {
  auto runtime = environment_variable("XDG_RUNTIME_DIR");
  if (runtime && !runtime->empty() && ::access(runtime->c_str(), W_OK) == 0) return *runtime + "/muster";
  return fmt::format("/tmp/muster-{}", ::getuid());
}

Result<std::string> make_status_directory() {
  std::string directory = status_directory();
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return system_error(errno, directory);
  struct stat status {};
  if (::lstat(directory.c_str(), &status) != 0) return system_error(errno, directory);
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::getuid() || (status.st_mode & 0077) != 0)
    return Error{ErrorKind::kUsage, fmt::format("{} is not a directory of this user alone", directory), "remove it"};
  return directory;
}

}  // namespace muster::launcher
