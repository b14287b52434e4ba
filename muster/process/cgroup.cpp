#include "muster/process/cgroup.h"

#include <algorithm>

#include "muster/base/fd.h"
#include "muster/base/strings.h"

namespace muster::process {
namespace {

bool lists(std::string_view comma_separated, std::string_view name) {
  auto parts = split(comma_separated, ',');
  return std::find(parts.begin(), parts.end(), name) != parts.end();
}

bool octal(char c) { return c >= '0' && c <= '7'; }

// Blanks in mountinfo are written as \040 and the like.
std::string unescape(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && octal(text[i + 1]) && octal(text[i + 2]) && octal(text[i + 3])) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

struct Mount {
  bool v2 = false;
  std::string root;   // the cgroup that is seen at `point`
  std::string point;  // without a final slash
  std::string_view options;
};

// "35 31 0:32 /docker/1 /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory"
std::optional<Mount> parse_mount(std::string_view line) {
  size_t dash = line.find(" - ");
  if (dash == std::string_view::npos) return std::nullopt;
  auto before = split(line.substr(0, dash), ' ');
  auto after = split(line.substr(dash + 3), ' ');
  if (before.size() < 6 || after.size() < 3) return std::nullopt;
  if (after[0] != "cgroup" && after[0] != "cgroup2") return std::nullopt;
  Mount mount{after[0] == "cgroup2", unescape(before[3]), unescape(before[4]), after[2]};
  while (mount.point.ends_with('/')) mount.point.pop_back();
  return mount;
}

// Path of our cgroup in the hierarchy that the mount shows.
std::optional<std::string> membership(const Mount& mount, std::string_view controller, std::string_view cgroup_file) {
  for (std::string_view line : split(cgroup_file, '\n')) {
    size_t first = line.find(':');
    size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    std::string_view controllers = line.substr(first + 1, second - first - 1);
    bool matches = mount.v2 ? controllers.empty() : lists(controllers, controller) && lists(mount.options, controller);
    if (matches) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

// What is below the mount's root. A cgroup outside of it (a container that sees the host's /proc) is not visible: its
// nearest visible level is the mount itself.
std::string below(const std::string& path, const std::string& mount_root) {
  std::string prefix = mount_root == "/" ? "" : mount_root;
  if (!path.starts_with(prefix + "/") || path.find("/..") != std::string::npos) return "";
  return path.substr(prefix.size());
}

}  // namespace

std::vector<CgroupPlace> find_cgroups(std::string_view controller, std::string_view cgroup_file,
                                      std::string_view mountinfo_file) {
  std::vector<CgroupPlace> places;
  for (std::string_view line : split(mountinfo_file, '\n')) {
    auto mount = parse_mount(line);
    if (!mount) continue;
    auto path = membership(*mount, controller, cgroup_file);
    if (!path) continue;
    CgroupPlace place{.v2 = mount->v2, .folders = {}};
    std::string relative = below(*path, mount->root);
    while (relative.ends_with('/')) relative.pop_back();
    for (; !relative.empty(); relative.erase(relative.rfind('/'))) place.folders.push_back(mount->point + relative);
    place.folders.push_back(mount->point);
    places.push_back(std::move(place));
  }
  return places;
}

std::vector<CgroupPlace> read_cgroups(std::string_view controller, const std::string& root) {
  auto cgroup_file = read_file(root + "/proc/self/cgroup");
  auto mountinfo_file = read_file(root + "/proc/self/mountinfo");
  if (!cgroup_file || !mountinfo_file) return {};
  auto places = find_cgroups(controller, *cgroup_file, *mountinfo_file);
  for (CgroupPlace& place : places) {
    for (std::string& folder : place.folders) folder.insert(0, root);
  }
  return places;
}

std::optional<uint64_t> cgroup_counter(std::string_view text, std::string_view name) {
  for (std::string_view line : split(text, '\n')) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ' ') continue;
    auto value = parse_int(trim(line.substr(name.size() + 1)));
    if (value && *value >= 0) return static_cast<uint64_t>(*value);
  }
  return std::nullopt;
}

std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period) {
  auto amount = parse_int(trim(quota));
  auto of = parse_int(trim(period));
  if (!amount || !of || *amount <= 0 || *of <= 0) return std::nullopt;
  return static_cast<double>(*amount) / static_cast<double>(*of);
}

std::optional<double> parse_cpu_max(std::string_view text) {
  text = trim(text);
  size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  return parse_cfs_quota(text.substr(0, blank), text.substr(blank + 1));
}

}  // namespace muster::process
