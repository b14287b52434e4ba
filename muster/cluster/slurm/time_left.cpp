#include "muster/cluster/slurm/time_left.h"

#include <fmt/format.h>

#include "muster/base/environment.h"
#include "muster/base/strings.h"
#include "muster/process/command.h"

namespace muster::cluster::slurm {
namespace {

// What the line that begins with the id has else.
std::optional<std::string_view> behind_id(std::string_view lines, std::string_view id) {
  for (std::string_view line : split(lines, '\n')) {
    line = trim(line);
    const size_t space = line.find(' ');
    if (space != std::string_view::npos && line.substr(0, space) == id) return trim(line.substr(space));
  }
  return std::nullopt;
}

}  // namespace

Result<std::optional<Duration>> parse_time_left(std::string_view squeue, std::string_view job_id) {
  const std::optional<std::string_view> own = behind_id(squeue, job_id);
  if (!own) return Error{ErrorKind::kPeer, fmt::format("squeue says nothing of job {}", job_id), {}};
  const std::string_view text = *own;
  if (text == "UNLIMITED") return std::optional<Duration>();
  const Error unknown{ErrorKind::kPeer, fmt::format("squeue says '{}', which is not a time", text.substr(0, 80)), {}};
  constexpr int64_t kMostDays = 36500, kMost = 100'000;
  int64_t days = 0;
  std::string_view clock = text;
  if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
    auto number = parse_int(text.substr(0, dash));
    if (!number || *number < 0 || *number > kMostDays) return unknown;
    days = *number;
    clock = text.substr(dash + 1);
  }
  const std::vector<std::string_view> parts = split(clock, ':');
  if (parts.size() < 2 || parts.size() > 3) return unknown;
  int64_t seconds = 0;
  for (std::string_view part : parts) {
    auto number = parse_int(part);
    if (!number || *number < 0 || *number > kMost) return unknown;
    seconds = seconds * 60 + *number;
  }
  return std::optional<Duration>(std::chrono::seconds(days * 86400 + seconds));
}

Result<std::optional<Duration>> time_left(const Surroundings& here, Deadline deadline) {
  MUSTER_TRY(auto ran,
             process::run_command({"squeue", "-h", "-j", here.job_id, "-o", "%A %L"}, own_environment(), deadline));
  if (ran.status.success()) return parse_time_left(ran.output, here.job_id);
  const std::string why = process::last_line(ran.errors);
  return Error{ErrorKind::kPeer, fmt::format("squeue: {}", why.empty() ? ran.status.text() : why), {}};
}

}  // namespace muster::cluster::slurm
