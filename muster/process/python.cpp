#include "muster/process/python.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "muster/base/fd.h"
#include "muster/base/strings.h"
#include "muster/process/site_packages.h"

namespace muster::process {
namespace {

namespace fs = std::filesystem;

enum class Candidate { kAbsent, kForbidden, kNotExecutable, kGood };

Candidate judge(const std::string& file) {
  struct stat info;
  if (stat(file.c_str(), &info) != 0) return errno == EACCES ? Candidate::kForbidden : Candidate::kAbsent;
  if (!S_ISREG(info.st_mode)) return Candidate::kNotExecutable;
  return access(file.c_str(), X_OK) == 0 ? Candidate::kGood : Candidate::kNotExecutable;
}

Error not_executable(const std::string& file) {
  std::error_code error;
  if (fs::is_directory(file, error)) {
    return {ErrorKind::kNotExecutable, fmt::format("{} is a directory, not a program", file), {}};
  }
  return {ErrorKind::kNotExecutable, fmt::format("{} is not executable", file),
          fmt::format("chmod +x {}", shell_quote(file))};
}

// Names that a .pth file of the folder adds to the search: editable installs and eggs.
std::vector<std::string> added_by_pth(const fs::path& folder) {
  std::vector<std::string> added;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != ".pth") continue;
    auto text = read_file(it->path().string());
    if (!text) continue;
    for (std::string_view line : split(*text, '\n')) {
      line = trim(line);
      if (line.empty() || line.starts_with('#') || line.starts_with("import ")) continue;
      added.push_back((folder / line).string());  // an absolute line replaces the folder
    }
  }
  std::sort(added.begin(), added.end());
  return added;
}

std::optional<TorchVersion> torch_in(const fs::path& folder) {
  fs::path package = folder / "torch";
  if (auto text = read_file((package / "version.py").string())) {
    if (auto version = assigned_version(*text)) return parse_torch_version(*version);
  }
  std::error_code error;
  if (!fs::exists(package / "__init__.py", error)) return std::nullopt;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (auto version = metadata_version(it->path().filename().string())) return parse_torch_version(*version);
  }
  return std::nullopt;
}

}  // namespace

Error no_access(const std::string& path) {
  return {ErrorKind::kNotExecutable, fmt::format("'{}' cannot be reached: a directory of its path denies access", path),
          fmt::format("'namei -l {}' shows which one", shell_quote(path))};
}

Result<std::string> find_program(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) {
    switch (judge(name)) {
      case Candidate::kGood:
        return name;
      case Candidate::kNotExecutable:
        return not_executable(name);
      case Candidate::kForbidden:
        return no_access(name);
      case Candidate::kAbsent:
        return Error{ErrorKind::kNotFound, fmt::format("{} does not exist", name),
                     "check the path; relative ones start at the current directory"};
    }
  }
  std::optional<Error> refused;
  for (std::string_view folder : split(path, ':')) {
    std::string file = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
    Candidate candidate = name.empty() ? Candidate::kAbsent : judge(file);
    if (candidate == Candidate::kGood) return file;
    if (candidate == Candidate::kNotExecutable && !refused) refused = not_executable(file);
  }
  if (refused) return *std::move(refused);
  return Error{ErrorKind::kNotFound, fmt::format("there is no program '{}' on PATH", name),
               "check the name, or write its path"};
}

Result<std::string> find_python(const GetEnv& getenv) {
  const std::string path = getenv("PATH").value_or(kDefaultPath);
  if (auto chosen = getenv("PYTHON_EXEC"); chosen && !chosen->empty()) {
    auto program = find_program(*chosen, path);
    if (program) return program;
    Error error = std::move(program).error();
    error.message.insert(0, "PYTHON_EXEC: ");
    error.hint = "set it to a Python that can be run, or unset it";
    return error;
  }
  for (const char* name : {"python", "python3"}) {
    if (auto program = find_program(name, path)) return program;
  }
  return Error{ErrorKind::kUsage, "there is no python or python3 on PATH",
               "activate an environment, set PYTHON_EXEC, or run the program itself with --no-python"};
}

std::optional<TorchVersion> find_torch(const std::string& python, const GetEnv& getenv) {
  auto folders = site_folders(python, getenv);
  if (!folders) return std::nullopt;
  for (const std::string& folder : *folders) {
    if (auto version = torch_in(folder)) return version;
  }
  for (const std::string& folder : *folders) {
    for (const std::string& added : added_by_pth(folder)) {
      if (auto version = torch_in(added)) return version;
    }
  }
  return std::nullopt;
}

}  // namespace muster::process
