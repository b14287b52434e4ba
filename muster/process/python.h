#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/result.h"

namespace muster::process {

// The PATH a shell has when it is unset.
inline constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

// First executable file of that name on PATH (or the name itself if it has a slash): kNotFound or kNotExecutable else.
Result<std::string> find_program(const std::string& name, const std::string& path);

// For a path of which a directory may not be searched: kNotExecutable.
Error no_access(const std::string& path);

// `python`, else `python3`, on PATH; PYTHON_EXEC, where set, instead.
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
