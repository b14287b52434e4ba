#include "muster/accelerate/settings.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/base/strings.h"

namespace muster::accelerate {

std::string python_number(double value) {
  if (std::isnan(value)) return "nan";  // whatever its sign
  std::string text = fmt::format("{}", value);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

std::optional<std::string> Settings::get(std::string_view name) const {
  if (auto found = settings_.find(name); found != settings_.end()) return found->second.value;
  const Option* option = find_option(name);
  MUSTER_CHECK(option != nullptr);
  if (option->kind == Kind::kFlag) return "False";
  return option->default_value == nullptr ? std::nullopt : std::optional<std::string>(option->default_value);
}

std::optional<int64_t> Settings::integer(std::string_view name) const {
  const auto text = get(name);
  return text ? parse_integer(*find_option(name), *text) : std::nullopt;
}

Source Settings::source(std::string_view name) const {
  auto found = settings_.find(name);
  return found == settings_.end() ? Source::kDefault : found->second.source;
}

job::Assignments Settings::all() const {
  job::Assignments all;
  for (const auto& [name, setting] : settings_)
    if (setting.source != Source::kDefault) all.emplace_back(name, setting.value);
  return all;
}

Result<Settings> Settings::of(const job::Assignments& all) {
  Settings settings;
  for (const auto& [name, value] : all) {
    if (find_option(name) == nullptr)
      return Error{ErrorKind::kPeer, fmt::format("accelerate has no setting '{}'", name), {}};
    settings.set(name, value, Source::kFile);
  }
  return settings;
}

void Settings::set(std::string_view name, std::optional<std::string> value, Source source) {
  const Option* option = find_option(name);
  MUSTER_CHECK(option != nullptr);
  settings_[std::string(option->name)] = {std::move(value), source};
}

}  // namespace muster::accelerate
