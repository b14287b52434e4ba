#include "muster/agent/script_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "muster/base/fd.h"

namespace muster::agent {

Result<void> write_script(const job::Command& command) {
  if (!command.script) return {};
  const std::filesystem::path path = command.script->file;
  auto failed = [&](const Error& why) {
    return Error{ErrorKind::kSystem, fmt::format("cannot keep the script in {}: {}", path.string(), why.message),
                 "set TMPDIR to a directory with room for it"};
  };
  if (::mkdir(path.parent_path().c_str(), 0700) != 0) return failed(system_error(errno, "mkdir"));
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return failed(system_error(errno, "open"));
  auto written = write_all(file.get(), command.script->text.data(), command.script->text.size());
  if (!written) return failed(written.error());
  return {};
}

// Byte code and the like of the script's directory goes with it.
void remove_script(const job::Command& command) {
  if (!command.script) return;
  std::error_code error;
  std::filesystem::remove_all(std::filesystem::path(command.script->file).parent_path(), error);
}

}  // namespace muster::agent
