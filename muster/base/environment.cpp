#include "muster/base/environment.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace muster {

const std::string* Environment::find(std::string_view name) const {
  const auto found = std::ranges::find(variables_, name, &Variable::first);
  return found == variables_.end() ? nullptr : &found->second;
}

std::optional<std::string> Environment::get(std::string_view name) const {
  const std::string* value = find(name);
  return value != nullptr ? std::optional<std::string>(*value) : std::nullopt;
}

void Environment::set(std::string_view name, std::string value) {
  const auto found = std::ranges::find(variables_, name, &Variable::first);
  if (found == variables_.end()) {
    variables_.emplace_back(name, std::move(value));
  } else {
    found->second = std::move(value);
    variables_.erase(
        std::remove_if(found + 1, variables_.end(), [&](const Variable& each) { return each.first == name; }),
        variables_.end());
  }
}

void Environment::set_all(const Environment& others) {
  for (const auto& [name, value] : others) set(name, value);
}

void Environment::erase(std::string_view name) {
  erase_if([&](const std::string& each) { return each == name; });
}

Environment own_environment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (const char* equals = std::strchr(*entry, '='))
      environment.add(std::string_view(*entry, static_cast<size_t>(equals - *entry)), equals + 1);
  return environment;
}

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
