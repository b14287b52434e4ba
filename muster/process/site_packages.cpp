#include "muster/process/site_packages.h"

#include <stdlib.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "muster/base/fd.h"
#include "muster/base/strings.h"

namespace muster::process {
namespace {

namespace fs = std::filesystem;

bool same_word(std::string_view a, std::string_view b) { return lower_case(a) == lower_case(b); }

bool present(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  return error ? path : real;
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_script(const fs::path& file) {
  auto head = read_file(file.string(), 2);
  return head && *head == "#!";
}

// "3.11.2" before "3.11.10"
bool older(const std::string& a, const std::string& b) {
  auto parts_a = split(a, '.');
  auto parts_b = split(b, '.');
  return std::lexicographical_compare(parts_a.begin(), parts_a.end(), parts_b.begin(), parts_b.end(),
                                      [](std::string_view x, std::string_view y) {
                                        auto number_x = parse_int(x);
                                        auto number_y = parse_int(y);
                                        return number_x && number_y ? *number_x < *number_y : x < y;
                                      });
}

// The first version that a pyenv file or variable names: "3.10.4:2.7" and one a line are lists.
std::string first_version(std::string_view text) {
  text = trim(text);
  return std::string(text.substr(0, text.find_first_of(": \t\r\n")));
}

// What pyenv's shim would start: PYENV_VERSION, .python-version here or above, the global version.
std::optional<fs::path> behind_shim(const fs::path& shim, const GetEnv& getenv) {
  fs::path root = shim.parent_path().parent_path();
  std::string version = first_version(getenv("PYENV_VERSION").value_or(""));
  std::error_code error;
  for (fs::path folder = fs::current_path(error); version.empty() && !error; folder = folder.parent_path()) {
    if (auto text = read_file((folder / ".python-version").string())) version = first_version(*text);
    if (folder == folder.parent_path()) break;
  }
  if (version.empty()) {
    if (auto text = read_file((root / "version").string())) version = first_version(*text);
  }
  if (version.empty() || version == "system") return std::nullopt;

  fs::path exact = root / "versions" / version / "bin" / "python";
  if (present(exact)) return exact;
  std::vector<std::string> matching;  // "3.10" stands for the newest 3.10.x
  for (const std::string& name : entries(root / "versions")) {
    if (name.starts_with(version + ".")) matching.push_back(name);
  }
  if (matching.empty()) return std::nullopt;
  return root / "versions" / *std::max_element(matching.begin(), matching.end(), older) / "bin" / "python";
}

struct Venv {
  fs::path prefix;
  bool system_site = false;
  std::optional<std::string> minor;
};

// Beside the interpreter or one level up, of the path as it was found: Python resolves no link for this.
std::optional<Venv> find_venv(const fs::path& python) {
  for (const fs::path& folder : {python.parent_path(), python.parent_path().parent_path()}) {
    auto text = read_file((folder / "pyvenv.cfg").string());
    if (!text) continue;
    Venv venv{.prefix = folder, .minor = {}};
    venv.system_site = same_word(venv_setting(*text, "include-system-site-packages").value_or(""), "true");
    for (const char* key : {"version", "version_info"}) {
      if (auto value = venv_setting(*text, key); value && !venv.minor) venv.minor = python_minor(*value);
    }
    return venv;
  }
  return std::nullopt;
}

// From the name of the file that the links end at, else from the only library folder there is.
std::optional<std::string> minor_of(const fs::path& real, const fs::path& prefix) {
  if (auto minor = python_minor(real.filename().string())) return minor;
  std::optional<std::string> found;
  for (const std::string& name : entries(prefix / "lib")) {
    auto minor = python_minor(name);
    if (!minor || name != "python" + *minor || !present(prefix / "lib" / name / "os.py")) continue;
    if (found) return std::nullopt;
    found = minor;
  }
  return found;
}

// site-packages as CPython, Red Hat (lib64, local) and Debian (dist-packages) have them.
void add_prefix(std::vector<std::string>& folders, const fs::path& prefix, const std::string& minor) {
  const std::string lib = "python" + minor;
  for (const fs::path& base : {prefix / "local", prefix}) {
    folders.push_back(base / "lib64" / lib / "site-packages");
    folders.push_back(base / "lib" / lib / "site-packages");
    if (base != prefix) folders.push_back(base / "lib" / lib / "dist-packages");
  }
  folders.push_back(prefix / "lib" / "python3" / "dist-packages");
  folders.push_back(prefix / "lib" / lib / "dist-packages");
}

std::optional<std::string> user_base(const GetEnv& getenv) {
  if (!getenv("PYTHONNOUSERSITE").value_or("").empty()) return std::nullopt;
  if (auto base = getenv("PYTHONUSERBASE"); base && !base->empty()) return base;
  auto home = getenv("HOME");
  if (!home || home->empty()) return std::nullopt;
  return *home + "/.local";
}

}  // namespace

std::optional<std::vector<std::string>> site_folders(const std::string& python, const GetEnv& getenv) {
  fs::path program = python;
  if (is_script(resolved(program))) {
    if (program.parent_path().filename() != "shims") return std::nullopt;
    auto real = behind_shim(program, getenv);
    if (!real) return std::nullopt;
    program = *real;
  }
  std::vector<std::string> folders;
  if (auto path = getenv("PYTHONPATH"); path && !path->empty()) {
    for (std::string_view entry : split(*path, ':')) folders.emplace_back(entry.empty() ? "." : entry);
  }
  fs::path real = resolved(program);
  fs::path prefix = real.parent_path().parent_path();
  if (auto home = getenv("PYTHONHOME"); home && !home->empty()) prefix = split(*home, ':')[0];
  auto venv = find_venv(program);
  auto minor = venv && venv->minor ? venv->minor : minor_of(real, prefix);
  if (!minor) return folders;

  if (venv) {
    folders.push_back(venv->prefix / "lib" / ("python" + *minor) / "site-packages");
    folders.push_back(venv->prefix / "lib64" / ("python" + *minor) / "site-packages");
    if (!venv->system_site) return folders;
  }
  if (auto base = user_base(getenv)) folders.push_back(*base + "/lib/python" + *minor + "/site-packages");
  add_prefix(folders, prefix, *minor);
  return folders;
}

std::optional<std::string> venv_setting(std::string_view text, std::string_view key) {
  for (std::string_view line : split(text, '\n')) {
    size_t equals = line.find('=');
    if (equals == std::string_view::npos || !same_word(trim(line.substr(0, equals)), key)) continue;
    return std::string(trim(line.substr(equals + 1)));
  }
  return std::nullopt;
}

std::optional<std::string> python_minor(std::string_view text) {
  if (text.starts_with("python")) text.remove_prefix(6);
  auto parts = split(text, '.');
  if (parts.size() < 2) return std::nullopt;
  auto major = parse_int(parts[0]);
  auto minor = parse_int(parts[1]);
  if (!major || !minor || *major < 2 || *minor < 0) return std::nullopt;
  return std::to_string(*major) + "." + std::to_string(*minor);
}

std::optional<std::string> assigned_version(std::string_view text) {
  for (std::string_view line : split(text, '\n')) {
    if (!line.starts_with("__version__")) continue;
    size_t open = line.find_first_of("'\"");
    if (open == std::string_view::npos) continue;
    size_t close = line.find(line[open], open + 1);
    if (close != std::string_view::npos) return std::string(line.substr(open + 1, close - open - 1));
  }
  return std::nullopt;
}

std::optional<std::string> metadata_version(std::string_view name) {
  if (!name.starts_with("torch-")) return std::nullopt;
  bool egg = name.ends_with(".egg-info");
  if (!egg && !name.ends_with(".dist-info")) return std::nullopt;
  name.remove_prefix(6);
  name.remove_suffix(egg ? 9 : 10);
  if (size_t python = name.find("-py"); egg && python != std::string_view::npos) name = name.substr(0, python);
  return std::string(name);
}

std::optional<TorchVersion> parse_torch_version(std::string_view text) {
  auto parts = split(text, '.');
  if (parts.size() < 2) return std::nullopt;
  auto major = parse_int(parts[0]);
  auto minor = parse_int(parts[1].substr(0, parts[1].find_first_not_of("0123456789")));  // "13a0", "1+cpu"
  if (!major || !minor || *major < 0 || *major > 1000 || *minor < 0 || *minor > 1000) return std::nullopt;
  return TorchVersion{static_cast<int>(*major), static_cast<int>(*minor), std::string(text)};
}

}  // namespace muster::process
