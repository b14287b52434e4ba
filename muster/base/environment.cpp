#include "muster/base/environment.h"

#include <cstdlib>

namespace muster {

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = ::getenv(name.c_str());
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

std::string temporary_directory() {
  auto directory = environment_variable("TMPDIR");
  return directory && !directory->empty() ? *std::move(directory) : "/tmp";
}

}  // namespace muster
