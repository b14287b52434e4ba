#include "muster/base/environment.h"

#include <sys/stat.h>

#include <cstdlib>

namespace muster {

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = ::getenv(name.c_str());
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

std::string temporary_directory() {
  auto directory = environment_variable("TMPDIR");
  return directory && is_directory(*directory) ? *std::move(directory) : "/tmp";
}

bool is_directory(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string no_temporary_directory(const std::string& given) {
  return "TMPDIR is " + given + ", which is not a directory: temporary files go to /tmp; make it, or unset TMPDIR";
}

}  // namespace muster
