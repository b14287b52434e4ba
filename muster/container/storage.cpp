#include "muster/container/storage.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "muster/base/strings.h"
#include "muster/container/inside.h"

namespace muster::container {
namespace {

namespace fs = std::filesystem;

// By the time of the last change, which no unpacking program sets back.
std::chrono::seconds unchanged_for(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  return std::chrono::seconds(::time(nullptr) - status.st_ctim.tv_sec);
}

}  // namespace

bool is_leftover(const std::string& entry, const std::string& making, const std::string& name,
                 std::chrono::seconds unchanged_for) {
  // A file system may keep locks from other nodes, so that one of them may still be at it.
  constexpr std::chrono::hours kLongest{24};
  if (entry == making) return true;
  return entry.starts_with(fmt::format(".{}{}", name, kMaking)) && unchanged_for > kLongest;
}

std::vector<std::string> leftovers(const std::string& directory, const std::string& making, const std::string& name) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string entry = it->path().filename().string();
    if (is_leftover(entry, making, name, unchanged_for(it->path()))) found.push_back(entry);
  }
  return found;
}

Result<bool> give_name(const std::string& directory, const std::string& making, const std::string& name) {
  const std::string to = fmt::format("{}/{}", directory, name);
  if (::rename(fmt::format("{}/{}", directory, making).c_str(), to.c_str()) == 0) return true;
  if (errno == ENOTEMPTY || errno == EEXIST) return false;
  return system_error(errno, fmt::format("cannot give the container its name {}", to));
}

}  // namespace muster::container
