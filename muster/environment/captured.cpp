#include "muster/environment/captured.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "muster/base/strings.h"

namespace muster::environment {
namespace {

constexpr std::string_view kOurs = "__muster_";

// NUL-ended words; what is not ended is not complete and left out.
class WordReader {
 public:
  explicit WordReader(std::string_view bytes) : rest_(bytes) {}
  std::optional<std::string_view> next() {
    const size_t end = rest_.find('\0');
    if (end == std::string_view::npos) return std::nullopt;
    std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return word;
  }
  int number() {
    const auto value = parse_int(next().value_or(""));
    return value && *value >= 0 && *value <= INT32_MAX ? static_cast<int>(*value) : 0;
  }
  std::string text() { return std::string(next().value_or("")); }

 private:
  std::string_view rest_;
};

process::Environment read_variables(WordReader& words) {
  process::Environment variables;
  while (auto word = words.next()) {
    const size_t equals = word->find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;
    variables.emplace_back(word->substr(0, equals), word->substr(equals + 1));
  }
  return variables;
}

// Of a shell, and not of what it starts.
bool is_shells_own(std::string_view name) {
  constexpr std::array<std::string_view, 4> kNames = {"_", "SHLVL", "PWD", "OLDPWD"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool can_be_in_a_shell(std::string_view name) {
  auto good = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), good);
}

bool is_ours(std::string_view name) {
  constexpr std::string_view kFunction = "BASH_FUNC_";
  if (name.starts_with(kFunction)) name.remove_prefix(kFunction.size());
  return name.starts_with(kOurs);
}

bool contains(const process::Environment& environment, std::string_view name) {
  return std::any_of(environment.begin(), environment.end(), [&](const auto& other) { return other.first == name; });
}

}  // namespace

Captured parse_captured(std::string_view bytes) {
  Captured captured;
  WordReader words(bytes);
  while (auto word = words.next()) {
    if (*word == "at") {
      captured.step = static_cast<size_t>(words.number());
    } else if (*word == "failed") {
      captured.failed = {
          .status = words.number(), .line = words.number(), .file = words.text(), .command = words.text()};
    } else if (*word == "exit") {
      captured.exited = {.status = words.number(), .line = words.number(), .file = words.text(), .command = {}};
    } else if (*word == "environment") {
      captured.environment = read_variables(words);
    }
  }
  return captured;
}

process::Environment settle(const process::Environment& left, const process::Environment& before) {
  process::Environment settled;
  for (const auto& variable : left)
    if (!is_shells_own(variable.first) && !is_ours(variable.first)) settled.push_back(variable);
  for (const auto& variable : before) {
    const bool kept =
        is_shells_own(variable.first) || (!can_be_in_a_shell(variable.first) &&
                                          !variable.first.starts_with("BASH_FUNC_") && !contains(left, variable.first));
    if (kept) settled.push_back(variable);
  }
  return settled;
}

}  // namespace muster::environment
