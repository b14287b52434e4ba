#include "muster/container/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "muster/base/strings.h"
#include "muster/container/inside.h"

namespace muster::container {
namespace {

struct Known {
  Kind kind;
  std::string_view name;
  std::array<const char*, 2> programs;  // the second: an older name of the first
};
// In the order in which the one that is there is looked for: those that sites install for jobs first.
constexpr std::array<Known, 4> kKnown = {{{Kind::kEnroot, "enroot", {"enroot", nullptr}},
                                          {Kind::kApptainer, "apptainer", {"apptainer", "singularity"}},
                                          {Kind::kPodman, "podman", {"podman", nullptr}},
                                          {Kind::kCharliecloud, "charliecloud", {"ch-run", nullptr}}}};

Error bad_mount(std::string_view text, std::string_view why) {
  return {ErrorKind::kUsage, fmt::format("'{}' {}", text, why), "write SOURCE:TARGET or SOURCE:TARGET:ro"};
}

std::string without_last_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

bool is_below(std::string_view path, std::string_view folder) {
  if (folder == "/") return true;
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

Result<void> check_mounts(const Spec& spec) {
  for (const Mount& mount : spec.mounts) {
    const std::string both = mount.source + mount.target;
    if (spec.kind == Kind::kApptainer && both.find(',') != std::string::npos)
      return Error{ErrorKind::kUsage, fmt::format("apptainer cannot mount {}: it has a comma", mount.source),
                   "mount a directory above it"};
    if (spec.kind != Kind::kCharliecloud) continue;
    if (mount.read_only)
      return Error{ErrorKind::kUsage, fmt::format("charliecloud cannot mount {} read-only", mount.source),
                   "leave :ro out, or use another --container-runtime"};
    if (is_below(mount.target, "/tmp") && mount.source != mount.target)
      return Error{ErrorKind::kUsage,
                   fmt::format("charliecloud shows the node's /tmp inside and can mount nothing at {}", mount.target),
                   "mount it elsewhere"};
  }
  return {};
}

Result<void> check_name(const Spec& spec) {
  const std::string& name = spec.name;
  if (!name.empty() && (!std::all_of(name.begin(), name.end(), is_name_character) || !isalnum(name[0])))
    return Error{ErrorKind::kUsage, fmt::format("--container-name: '{}' is not a name for a container", name),
                 "use letters, digits, '_', '.' and '-'"};
  return {};
}

}  // namespace

std::string_view name_of(Kind kind) {
  for (const Known& known : kKnown)
    if (known.kind == kind) return known.name;
  return "";
}

Result<Mount> parse_mount(std::string_view text, const std::string& directory) {
  const auto parts = split(text, ':');
  if (parts.size() == 1) return bad_mount(text, "does not say where it is mounted");
  if (parts.size() > 3) return bad_mount(text, "has too many colons");
  if (parts[0].empty() || parts[1].empty()) return bad_mount(text, "names an empty path");
  if (!parts[1].starts_with('/')) return bad_mount(text, "needs a target that begins with /");
  if (parts[1] == "/") return bad_mount(text, "would hide the whole container");
  const std::string_view mode = parts.size() == 3 ? parts[2] : "rw";
  if (mode != "ro" && mode != "rw") return bad_mount(text, fmt::format("ends in '{}'", mode));
  std::string source(parts[0]);
  if (!source.starts_with('/')) source = fmt::format("{}/{}", directory == "/" ? "" : directory, source);
  return Mount{without_last_slashes(std::move(source)), without_last_slashes(std::string(parts[1])), mode == "ro"};
}

void show(std::vector<Mount>& mounts, const std::string& path) {
  if (path.empty() || path == "/") return;
  for (const Mount& mount : mounts) {
    if (mount.target == path) return;
    // Below one that shows the same files and lets them be written.
    if (!mount.read_only && is_below(path, mount.target) && mount.source == mount.target) return;
  }
  mounts.push_back({path, path, false});
}

Result<void> check(const Spec& spec) {
  if (spec.image.empty() && spec.name.empty())
    return Error{ErrorKind::kUsage, "there is no image to run the workers in", "name one with --container"};
  MUSTER_TRY_VOID(check_name(spec));
  for (const Mount& mount : spec.mounts) {
    const std::string both = mount.source + mount.target;
    // Every runtime takes a mount as one word with colons in it.
    if (both.find_first_of(":\n") != std::string::npos)
      return Error{ErrorKind::kUsage, fmt::format("{} has a colon and cannot be seen inside a container", mount.source),
                   "work in another directory, or mount one above it"};
  }
  if (spec.kind == Kind::kEnroot && spec.image.find("://") != std::string::npos)
    return Error{ErrorKind::kUsage, fmt::format("enroot runs image files, and {} is an address", spec.image),
                 fmt::format("fetch it once with 'enroot import -o image.sqsh {}' and give --container image.sqsh",
                             shell_quote(spec.image))};
  const auto& options = spec.options;
  if (spec.kind == Kind::kCharliecloud && std::find(options.begin(), options.end(), "--env-no-expand") != options.end())
    return Error{ErrorKind::kUsage,
                 "--env-no-expand would keep workers from their variables, which ch-run is told by name",
                 "leave it out"};
  return check_mounts(spec);
}

bool is_written_as_path(Kind kind, std::string_view image) {
  constexpr std::array<std::string_view, 13> kEndings = {".sqsh",    ".sqfs", ".squashfs", ".sif",     ".img",
                                                         ".tar",     ".tgz",  ".tar.gz",   ".tar.bz2", ".tar.xz",
                                                         ".tar.zst", ".oci",  ".simg"};
  if (image.find("://") != std::string_view::npos) return false;
  if (kind == Kind::kEnroot || kind == Kind::kApptainer) return true;
  return image.starts_with('/') || image.starts_with("./") || image.starts_with("../") || image.starts_with("~/") ||
         std::any_of(kEndings.begin(), kEndings.end(), [&](auto ending) { return image.ends_with(ending); });
}

Result<Found> find_runtime(std::string_view wanted, const FindProgram& find) {
  for (const Known& known : kKnown) {
    if (!wanted.empty() && wanted != known.name) continue;
    for (const char* program : known.programs) {
      if (program == nullptr) continue;
      if (auto path = find(program)) return Found{known.kind, *std::move(path)};
    }
    if (!wanted.empty())
      return Error{ErrorKind::kUsage, fmt::format("there is no {} on PATH", known.programs[0]),
                   "install it, load its module, or choose another --container-runtime"};
  }
  return Error{ErrorKind::kUsage,
               "there is no container runtime on PATH: neither enroot, apptainer, podman nor charliecloud",
               "install one, or load its module"};
}

}  // namespace muster::container
