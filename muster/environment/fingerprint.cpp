#include "muster/environment/fingerprint.h"

#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "muster/base/fd.h"
#include "muster/base/strings.h"
#include "muster/base/version.h"
#include "muster/environment/secrets.h"
#include "muster/process/command.h"
#include "muster/process/gpus.h"
#include "muster/process/python.h"

namespace muster::environment {
namespace {

// Three lines: the version, where torch is, and torch's version.py; torch itself is not imported, which takes seconds.
constexpr const char* kAskPython =
    "import importlib.util, os, sys\n"
    "print('.'.join(map(str, sys.version_info[:3])))\n"
    "spec = importlib.util.find_spec('torch')\n"
    "folder = os.path.dirname(spec.origin) if spec and spec.origin else ''\n"
    "print(folder)\n"
    "if folder: print(open(os.path.join(folder, 'version.py')).read())\n";

GetEnv lookup(const process::Environment& environment) {
  return [&environment](const std::string& name) -> std::optional<std::string> {
    for (const auto& [n, value] : environment)
      if (n == name) return value;
    return std::nullopt;
  };
}

void ask_python(Fingerprint& print, const process::Environment& environment, Deadline deadline) {
  auto python = process::find_python(lookup(environment));
  if (!python) return;
  print.versions["python"] = *python;
  auto said = process::run_command({*python, "-c", kAskPython}, environment, deadline);
  if (said && !said->output.empty()) {
    const std::string& text = said->output;
    const size_t first = text.find('\n'), second = text.find('\n', first + 1);
    print.versions["python"] = fmt::format("{} ({})", text.substr(0, first), *python);
    if (const std::string cuda = second == std::string::npos ? "" : cuda_of_torch(text.substr(second)); !cuda.empty())
      print.versions["torch's CUDA"] = cuda;
  }
  if (auto torch = process::find_torch(*python, lookup(environment))) print.versions["torch"] = torch->text;
}

// "4 x NVIDIA H100"
std::string gpus(const process::Environment& environment) {
  const process::GpuCount count = process::count_gpus(lookup(environment));
  if (count.count == 0) return "none";
  std::string model;
  std::error_code none;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    auto text = read_file(gpu.path() / "information");
    constexpr std::string_view kModel = "Model:";
    const size_t at = text ? text->find(kModel) : std::string::npos;
    if (at == std::string::npos) continue;
    model = trim(std::string_view(*text).substr(at + kModel.size(), text->find('\n', at) - at - kModel.size()));
    break;
  }
  return model.empty() ? std::to_string(count.count) : fmt::format("{} x {}", count.count, model);
}

}  // namespace

std::string cuda_of_torch(std::string_view version_py) {
  for (std::string_view line : split(version_py, '\n')) {
    // cuda = '12.4' or cuda: Optional[str] = '12.4'
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    std::string_view name = line.substr(0, equals);
    if (trim(name.substr(0, name.find(':'))) != "cuda") continue;
    const std::string_view value = trim(line.substr(equals + 1));
    if (value.size() < 2 || (value[0] != '\'' && value[0] != '"')) return {};
    return std::string(value.substr(1, value.find(value[0], 1) - 1));
  }
  return {};
}

std::string masked_with_hash(std::string_view name, const std::string& value) {
  std::string shown = masked(name, value);
  if (shown == value) return shown;
  uint32_t hash = 2166136261U;  // FNV-1a; of which too little is shown to find the value by trying
  for (char c : value) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return fmt::format("{} #{:04x}", shown, (hash ^ (hash >> 16)) & 0xffffU);
}

Fingerprint take_fingerprint(std::string host, const process::Environment& environment, Deadline deadline) {
  Fingerprint print{.host = std::move(host), .versions = {}, .variables = {}};
  for (const auto& [name, value] : environment) print.variables[name] = masked_with_hash(name, value);
  print.versions["muster"] = version();
  print.versions["glibc"] = ::gnu_get_libc_version();
  utsname system{};
  if (::uname(&system) == 0) print.versions["kernel"] = system.release;
  for (const char* module : {"nvidia", "amdgpu"})
    if (auto text = read_file(fmt::format("/sys/module/{}/version", module)))
      print.versions["GPU driver"] = fmt::format("{} {}", module, trim(*text));
  print.versions["GPUs"] = gpus(environment);
  ask_python(print, environment, deadline);
  return print;
}

std::string encode(const Fingerprint& fingerprint) {
  const nlohmann::json json = {
      {"host", fingerprint.host}, {"versions", fingerprint.versions}, {"variables", fingerprint.variables}};
  return json.dump(0, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<Fingerprint> decode_fingerprint(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  Fingerprint fingerprint;
  auto read_map = [&](const char* key, std::map<std::string, std::string>& into) {
    if (!json.contains(key) || !json[key].is_object()) return false;
    for (const auto& [name, value] : json[key].items()) {
      if (!value.is_string()) return false;
      into[name] = value.get<std::string>();
    }
    return true;
  };
  const bool good = json.is_object() && json.contains("host") && json["host"].is_string() &&
                    read_map("versions", fingerprint.versions) && read_map("variables", fingerprint.variables);
  if (!good) return Error{ErrorKind::kPeer, "what a node says of itself is damaged", {}};
  fingerprint.host = json["host"].get<std::string>();
  return fingerprint;
}

}  // namespace muster::environment
