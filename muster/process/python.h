#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/result.h"

namespace muster::process {

// The PATH that a shell uses if it is unset.
inline constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

// The first executable file with this name on PATH, or the name itself if it has a slash. kNotFound, kNotExecutable.
Result<std::string> find_program(const std::string& name, const std::string& path);

// The error for a path with a directory that may not be searched: kNotExecutable.
Error no_access(const std::string& path);

// PYTHON_EXEC if it is set, else `python` or `python3` on PATH.
Result<std::string> find_python(const GetEnv& getenv);

// major.minor of the torch that an interpreter would import, read from the version file or the *.dist-info / *.egg-info
// names in its site-packages (venv, user site, PYTHONPATH, Debian's dist-packages); nothing is imported or run.
struct TorchVersion {
  int major = 0;
  int minor = 0;
  std::string text;  // "1.13.0a0", "2.13.0+cpu"
  auto operator<=>(const TorchVersion& other) const = default;
};
std::optional<TorchVersion> find_torch(const std::string& python, const GetEnv& getenv);

}  // namespace muster::process
