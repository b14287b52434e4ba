#include "muster/agent/script_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "muster/base/fd.h"

namespace muster::agent {

Result<void> write_script(const Command& command) {
  if (!command.script) return {};
  const std::filesystem::path path = command.script->file;
  if (::mkdir(path.parent_path().c_str(), 0700) != 0) return system_error(errno, path.parent_path().string());
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return system_error(errno, path.string());
  return write_all(file.get(), command.script->text.data(), command.script->text.size());
}

// Byte code and the like of the script's directory goes with it.
void remove_script(const Command& command) {
  if (!command.script) return;
  std::error_code error;
  std::filesystem::remove_all(std::filesystem::path(command.script->file).parent_path(), error);
}

}  // namespace muster::agent
