#include "muster/job/python_template.h"

#include <algorithm>

namespace muster::job {
namespace {

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_name(char c) { return starts_name(c) || (c >= '0' && c <= '9'); }

std::string_view leading_name(std::string_view text) {
  if (text.empty() || !starts_name(text[0])) return {};
  const auto* end = std::find_if_not(text.begin(), text.end(), continues_name);
  return text.substr(0, static_cast<size_t>(end - text.begin()));
}

}  // namespace

std::string safe_substitute(std::string_view text,
                            const std::function<std::optional<std::string>(std::string_view name)>& value_of) {
  std::string out;
  while (!text.empty()) {
    size_t dollar = std::min(text.find('$'), text.size());
    out += text.substr(0, dollar);
    text.remove_prefix(dollar);
    if (text.empty()) break;
    if (text.starts_with("$$")) {
      out += '$';
      text.remove_prefix(2);
      continue;
    }
    bool braced = text.starts_with("${");
    std::string_view name = leading_name(text.substr(braced ? 2 : 1));
    bool closed = !braced || text.substr(2 + name.size()).starts_with('}');
    std::optional<std::string> value = name.empty() || !closed ? std::nullopt : value_of(name);
    out += value ? *value : "$";
    text.remove_prefix(value ? name.size() + (braced ? 3 : 1) : 1);
  }
  return out;
}

}  // namespace muster::job
