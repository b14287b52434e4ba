#include "muster/cluster/pbs/time_left.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "muster/base/environment.h"
#include "muster/base/strings.h"
#include "muster/process/command.h"

namespace muster::cluster::pbs {
namespace {

using std::chrono::seconds;

constexpr int64_t kMostSeconds = int64_t{100} * 366 * 24 * 3600;
// How long MOM may leave resources_used as it is: its longest interval, and time for the news to travel.
constexpr seconds kNewsAge{150};

// The attribute's value, or nothing. Long ones are continued on lines that begin with a tab.
std::optional<std::string> attribute(std::string_view qstat, std::string_view name) {
  std::optional<std::string> value;
  for (std::string_view line : split(qstat, '\n')) {
    if (value) {
      if (!line.starts_with('\t')) break;
      *value += trim(line);
      continue;
    }
    const size_t equals = line.find(" = ");
    if (equals == std::string_view::npos || line.starts_with('\t')) continue;
    if (trim(line.substr(0, equals)) == name) value = trim(line.substr(equals + 3));
  }
  return value;
}

// As ctime() writes it: "Sun Nov 15 16:10:14 2026".
std::optional<time_t> parse_ctime(const std::string& text) {
  std::tm parts{};
  const char* rest = ::strptime(text.c_str(), "%a %b %d %H:%M:%S %Y", &parts);
  if (rest == nullptr || *rest != '\0') return std::nullopt;
  return ::timegm(&parts);
}

seconds used_time(std::string_view qstat, time_t now) {
  std::optional<seconds> used, since_start;
  if (auto text = attribute(qstat, "resources_used.walltime")) used = parse_walltime(*text);
  if (auto text = attribute(qstat, "stime")) {
    if (auto start = parse_ctime(*text)) since_start = seconds(std::clamp<int64_t>(now - *start, 0, kMostSeconds));
  }
  if (!since_start) return used.value_or(seconds(0));
  if (!used || (*since_start >= *used && *since_start - *used <= kNewsAge)) return *since_start;
  return *used;
}

Environment qstat_environment() {
  Environment environment = own_environment();
  environment.erase_if([](const std::string& name) { return name.starts_with("LC_"); });
  environment.set("LC_ALL", "C");
  environment.set("TZ", "UTC");
  return environment;
}

}  // namespace

std::optional<seconds> parse_walltime(std::string_view text) {
  text = text.substr(0, text.find('.'));  // of a second
  int64_t total = 0;
  const auto parts = split(text, ':');
  if (parts.size() > 3) return std::nullopt;
  for (std::string_view part : parts) {
    constexpr int64_t kSixty = 60;
    const auto number = parse_int(part);
    if (!number || *number < 0 || *number > kMostSeconds) return std::nullopt;
    total = total * kSixty + *number;
    if (total > kMostSeconds) return std::nullopt;
  }
  return seconds(total);
}

Result<std::optional<Duration>> time_left(std::string_view qstat, time_t now) {
  const auto text = attribute(qstat, "Resource_List.walltime");
  if (!text) return std::optional<Duration>();
  const auto limit = parse_walltime(*text);
  if (!limit) return Error{ErrorKind::kPeer, fmt::format("qstat: \"{}\" is not a walltime", text->substr(0, 80)), {}};
  return std::optional<Duration>(std::max(seconds(0), *limit - used_time(qstat, now)));
}

Result<std::optional<Duration>> time_left(const Surroundings& here, Deadline deadline) {
  MUSTER_TRY(auto ran, process::run_command({"qstat", "-f", here.job_id}, qstat_environment(), deadline));
  if (!ran.status.success()) {
    const std::string why = process::last_line(ran.errors);
    return Error{
        ErrorKind::kPeer, fmt::format("qstat -f {}: {}", here.job_id, why.empty() ? ran.status.text() : why), {}};
  }
  return time_left(ran.output, std::time(nullptr));
}

}  // namespace muster::cluster::pbs
