#include "muster/agent/output/label.h"

#include <fmt/format.h>

#include <optional>

namespace muster::agent {
namespace {

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_name(char c) { return starts_name(c) || (c >= '0' && c <= '9'); }

std::string_view leading_name(std::string_view text) {
  if (text.empty() || !starts_name(text[0])) return {};
  size_t size = 1;
  while (size < text.size() && continues_name(text[size])) ++size;
  return text.substr(0, size);
}

std::optional<std::string> value_of(std::string_view name, const LabelNames& names) {
  if (name == "role_name") return names.role_name;
  if (name == "local_rank") return std::to_string(names.local_rank);
  if (name == "rank") return std::to_string(names.rank);
  if (name == "hostname") return names.hostname;
  return std::nullopt;
}

}  // namespace

std::string expand_prefix(std::string_view text, const LabelNames& names) {
  std::string out;
  while (!text.empty()) {
    size_t dollar = text.find('$');
    out += text.substr(0, dollar);
    if (dollar == std::string_view::npos) break;
    text.remove_prefix(dollar);
    if (text.substr(0, 2) == "$$") {
      out += '$';
      text.remove_prefix(2);
      continue;
    }
    bool braced = text.substr(0, 2) == "${";
    std::string_view name = leading_name(text.substr(braced ? 2 : 1));
    size_t used = 1 + name.size();
    if (braced) {
      bool closed = !name.empty() && text.substr(2 + name.size(), 1) == "}";
      used = closed ? name.size() + 3 : 1;
      if (!closed) name = {};
    }
    std::optional<std::string> value = value_of(name, names);
    out += value ? *value : std::string(text.substr(0, used));
    text.remove_prefix(used);
  }
  return out;
}

std::string worker_label(const JobSpec& job, const Placement& placement, const std::string& hostname) {
  LabelNames names{job.role, placement.local_rank, placement.rank, hostname};
  if (!job.output.prefix_template.empty()) return expand_prefix(job.output.prefix_template, names);
  if (job.flavor != Flavor::kMuster) return fmt::format("[{}{}]:", job.role, placement.local_rank);
  switch (job.output.label) {
    case LabelKind::kNone:
      return {};
    case LabelKind::kRank:
      return fmt::format("[{}] ", placement.rank);
    case LabelKind::kHostRank:
      return fmt::format("[{}:{}] ", hostname, placement.rank);
  }
  return {};
}

}  // namespace muster::agent
