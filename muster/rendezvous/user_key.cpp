#include "muster/rendezvous/user_key.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "muster/base/environment.h"
#include "muster/base/fd.h"
#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/job/token.h"

namespace muster::rendezvous {
namespace {

constexpr size_t kMostBytes = 4096;
constexpr std::string_view kExposed = "can be read or changed by others";

Error cannot_use(const std::string& path, const std::string& why) {
  return {ErrorKind::kUsage, fmt::format("the key {} {}", path, why),
          "give --token-file FILE or MUSTER_TOKEN instead, or --insecure"};
}

constexpr uid_t kRoot = 0;

// Why a file cannot keep a secret; empty: it can.
std::string_view exposure(const struct stat& status, bool roots_too) {
  if (!S_ISREG(status.st_mode)) return "is not a file";
  if (status.st_uid != ::geteuid() && !(roots_too && status.st_uid == kRoot)) return "belongs to another user";
  return (status.st_mode & (S_IRWXG | S_IRWXO)) != 0 ? kExposed : "";
}

std::string read_secret(const Fd& file) {
  std::string text(kMostBytes, '\0');
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return std::string(trim(text));
}

Result<std::optional<std::string>> read_existing(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file && errno == ENOENT) return std::optional<std::string>();
  if (!file) return cannot_use(path, fmt::format("cannot be read: {}", system_error(errno, "open").message));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return cannot_use(path, system_error(errno, "stat").message);
  const std::string_view why = exposure(status, false);
  if (why == kExposed)
    return Error{ErrorKind::kUsage, fmt::format("the key {} {}", path, why), fmt::format("chmod 600 {}", path)};
  if (!why.empty()) return cannot_use(path, std::string(why));
  std::string text = read_secret(file);
  if (text.empty()) return cannot_use(path, "is empty");
  return std::optional(std::move(text));
}

// Written under another name first: link() either gives it its name whole, or finds that somebody was faster.
Result<void> make_key(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const std::filesystem::path home = folder.parent_path().parent_path();
  std::error_code error;
  if (!std::filesystem::exists(home, error) && !error)
    return cannot_use(path, fmt::format("cannot be made: there is no home directory {}", home.string()));
  std::filesystem::create_directories(folder, error);
  if (error) return cannot_use(path, fmt::format("cannot be made: {}: {}", folder.string(), error.message()));
  const std::string draft = fmt::format("{}.{}", path, random_uuid());
  Fd file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file) return cannot_use(path, fmt::format("cannot be made: {}", system_error(errno, "open").message));
  const std::string text = job::Token::random().hex() + "\n";
  auto written = write_all(file.get(), text.data(), text.size());
  if (written && ::fsync(file.get()) != 0) written = system_error(errno, "fsync");
  if (written && ::link(draft.c_str(), path.c_str()) != 0 && errno != EEXIST) written = system_error(errno, "link");
  ::unlink(draft.c_str());
  if (!written) return cannot_use(path, fmt::format("cannot be made: {}", written.error().message));
  return {};
}

}  // namespace

std::string user_key_path() {
  std::string home = environment_variable("HOME").value_or("");
  if (home.empty()) {
    const passwd* user = ::getpwuid(::geteuid());
    home = user != nullptr ? user->pw_dir : "";
  }
  return home + "/.config/muster/key";
}

Result<std::optional<std::string>> read_user_key(const std::string& path, bool make) {
  MUSTER_TRY(std::optional<std::string> key, read_existing(path));
  if (key || !make) return key;
  MUSTER_TRY_VOID(make_key(path));
  return read_existing(path);
}

Result<std::string> read_token_file(const std::string& path) {
  auto unusable = [&](std::string_view why, std::string hint) {
    return Error{ErrorKind::kUsage, fmt::format("'{}' {}", path, why), std::move(hint)};
  };
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return unusable(fmt::format("cannot be read: {}", std::strerror(errno)), "give a file you may read");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return unusable(std::strerror(errno), "give a file you may read");
  const std::string_view why = exposure(status, true);
  if (why == kExposed) return unusable(why, fmt::format("chmod 600 {}", path));
  if (!why.empty()) return unusable(why, "give a file of your own");
  std::string text = read_secret(file);
  if (text.empty()) return unusable("is empty", "write a secret into it: openssl rand -hex 32");
  return text;
}

}  // namespace muster::rendezvous
