#include "muster/environment/fingerprint.h"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sodium.h>
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

GetEnv lookup(const Environment& environment) {
  return [&environment](const std::string& name) { return environment.get(name); };
}

void init_crypto() { MUSTER_CHECK(sodium_init() >= 0); }  // which may be called as often as one likes

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

void ask_python(std::map<std::string, std::string>& versions, const Environment& environment, Deadline deadline) {
  auto python = process::find_python(lookup(environment));
  if (!python) return;
  versions["python"] = *python;
  auto said = process::run_command({*python, "-c", kAskPython}, environment, deadline);
  if (said && !said->output.empty()) {
    const std::string& text = said->output;
    const size_t first = text.find('\n'), second = text.find('\n', first + 1);
    versions["python"] = fmt::format("{} ({})", text.substr(0, first), *python);
    if (const std::string cuda = second == std::string::npos ? "" : cuda_of_torch(text.substr(second)); !cuda.empty())
      versions["torch's CUDA"] = cuda;
  }
  if (auto torch = process::find_torch(*python, lookup(environment))) versions["torch"] = torch->text;
}

// "4 x NVIDIA H100"
std::string gpus(const Environment& environment) {
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

FingerprintKey random_fingerprint_key() {
  init_crypto();
  FingerprintKey key;
  randombytes_buf(key.data(), key.size());
  return key;
}

std::string masked_with_hash(std::string_view name, const std::string& value, const FingerprintKey& key) {
  constexpr size_t kShown = 4;
  std::string shown = masked(name, value);
  if (shown == value) return shown;
  init_crypto();
  // With the name: that two variables have the same value is nobody's business.
  crypto_generichash_state state;
  std::array<unsigned char, crypto_generichash_BYTES> hash{};
  crypto_generichash_init(&state, key.data(), key.size(), hash.size());
  crypto_generichash_update(&state, bytes_of(name), name.size());
  crypto_generichash_update(&state, bytes_of("="), 1);
  crypto_generichash_update(&state, bytes_of(value), value.size());
  crypto_generichash_final(&state, hash.data(), hash.size());
  std::array<char, 2 * kShown + 1> digits{};
  sodium_bin2hex(digits.data(), digits.size(), hash.data(), kShown);
  return fmt::format("{} #{}", shown, digits.data());
}

std::map<std::string, std::string> take_versions(const Environment& environment, Deadline deadline) {
  std::map<std::string, std::string> versions;
  versions["muster"] = version();
  versions["glibc"] = ::gnu_get_libc_version();
  utsname system{};
  if (::uname(&system) == 0) versions["kernel"] = system.release;
  for (const char* module : {"nvidia", "amdgpu"})
    if (auto text = read_file(fmt::format("/sys/module/{}/version", module)))
      versions["GPU driver"] = fmt::format("{} {}", module, trim(*text));
  versions["GPUs"] = gpus(environment);
  ask_python(versions, environment, deadline);
  return versions;
}

Fingerprint take_fingerprint(std::string host, const Environment& environment, const FingerprintKey& key,
                             Deadline deadline) {
  Fingerprint print{.host = std::move(host), .versions = take_versions(environment, deadline), .variables = {}};
  for (const auto& [name, value] : environment) print.variables[name] = masked_with_hash(name, value, key);
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
