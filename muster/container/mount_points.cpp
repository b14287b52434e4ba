#include "muster/container/mount_points.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "muster/base/fd.h"
#include "muster/base/strings.h"
#include "muster/container/node.h"

namespace muster::container {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kDirectoryMode = 0755, kFileMode = 0644;

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

Error refusal(const Mount& mount, std::string_view why, std::string hint) {
  return {ErrorKind::kUsage, fmt::format("{} cannot be mounted at {}: {}", mount.source, mount.target, why),
          std::move(hint)};
}

Error cannot_make(const Mount& mount, std::string_view part) {
  const int error = errno;
  return refusal(mount,
                 system_error(error, fmt::format("the image lacks that file, and /{} cannot be made", part)).message,
                 "name a file that the image has, not by way of a symbolic link, or mount a directory");
}

// What another mount, made before, shows at that target: nothing of the image then. Empty: none does.
std::string shown_by_earlier(const std::vector<Mount>& mounts, const Mount& mount) {
  std::string shown;
  for (const Mount& earlier : mounts) {
    if (&earlier == &mount) break;
    if (mount.target.starts_with(earlier.target + "/"))
      shown = earlier.source + mount.target.substr(earlier.target.size());
  }
  return shown;
}

// A symbolic link of the image may lead out of it, so none is followed.
Result<void> make_file(const std::string& root, const Mount& mount) {
  Fd directory(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  std::string made;
  const fs::path path = fs::path(mount.target).lexically_normal().relative_path();
  for (const fs::path& part : path.parent_path()) {
    made += (made.empty() ? "" : "/") + part.string();
    if (::mkdirat(directory.get(), part.c_str(), kDirectoryMode) != 0 && errno != EEXIST)
      return cannot_make(mount, made);
    directory.reset(::openat(directory.get(), part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory) return cannot_make(mount, made);
  }
  const Fd file(
      ::openat(directory.get(), path.filename().c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  return file ? Result<void>() : cannot_make(mount, path.string());
}

Result<void> check_kinds(const Mount& mount, const std::string& place) {
  const bool inside = is_directory(place);
  if (is_directory(mount.source) == inside) return {};
  return refusal(mount, inside ? "it is a file, and a directory is there" : "it is a directory, and a file is there",
                 "mount a file on a file, or a directory on a directory");
}

}  // namespace

Result<void> make_file_points(const std::string& root, const std::vector<Mount>& mounts) {
  std::vector<const Mount*> missing;
  for (const Mount& mount : mounts) {
    const std::string shown = shown_by_earlier(mounts, mount);
    const std::string place = shown.empty() ? root + mount.target : shown;
    if (exists(place)) {
      MUSTER_TRY_VOID(check_kinds(mount, place));
    } else if (!is_directory(mount.source)) {
      if (!shown.empty()) return refusal(mount, fmt::format("there is no {}", shown), "make it first");
      missing.push_back(&mount);
    }
  }
  for (const Mount* mount : missing) MUSTER_TRY_VOID(make_file(root, *mount));
  return {};
}

std::vector<std::string> make_system_points(const std::string& root) {
  std::vector<std::string> missing;
  for (const char* path : {"/etc/hosts", "/etc/resolv.conf", "/etc/passwd", "/etc/group"})
    if (exists(path) && !exists(root + path) && !make_file(root, {.source = path, .target = path}))
      missing.emplace_back(path);
  return missing;
}

}  // namespace muster::container
