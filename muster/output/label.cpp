#include "muster/output/label.h"

#include <fmt/format.h>

#include <optional>

#include "muster/job/python_template.h"

namespace muster::output {
namespace {

std::optional<std::string> value_of(std::string_view name, const LabelNames& names) {
  if (name == "role_name") return names.role_name;
  if (name == "local_rank") return std::to_string(names.local_rank);
  if (name == "rank") return std::to_string(names.rank);
  if (name == "hostname") return names.hostname;
  return std::nullopt;
}

}  // namespace

std::string expand_prefix(std::string_view text, const LabelNames& names) {
  return job::safe_substitute(text, [&](std::string_view name) { return value_of(name, names); });
}

std::string worker_label(const job::JobSpec& job, const job::Placement& placement, const std::string& hostname) {
  LabelNames names{job.role, placement.local_rank, placement.rank, hostname};
  if (!job.output.prefix_template.empty()) return expand_prefix(job.output.prefix_template, names);
  switch (job.output.label) {
    case job::LabelKind::kNone:
      return job.flavor == job::Flavor::kMuster ? "" : fmt::format("[{}{}]:", job.role, placement.local_rank);
    case job::LabelKind::kRank:
      return fmt::format("[{}] ", placement.rank);
    case job::LabelKind::kHostRank:
      return fmt::format("[{}:{}] ", hostname, placement.rank);
  }
  return {};
}

}  // namespace muster::output
