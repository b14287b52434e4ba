#include "muster/base/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "muster/base/fd.h"
#include "muster/base/random.h"

namespace muster {

Result<void> write_new_file(const std::string& path, const std::string& text) {
  const std::string beside = path.substr(0, path.rfind('/') + 1) + ".muster-" + random_uuid();
  auto failed = [&] { return system_error(errno, fmt::format("cannot write {}", path)); };
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return failed();
  Result<void> written = write_all(file, text.data(), text.size());
  if (!written)
    written = Error{ErrorKind::kSystem, fmt::format("cannot write {}: {}", path, written.error().message), {}};
  // A network file system may say only here that the disk is full.
  if (::close(file) != 0 && written) written = failed();
  if (written && ::rename(beside.c_str(), path.c_str()) != 0) written = failed();
  if (!written) ::unlink(beside.c_str());
  return written;
}

}  // namespace muster
