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

Environment read_variables(WordReader& words) {
  Environment variables;
  while (auto word = words.next()) {
    const size_t equals = word->find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;
    variables.add(word->substr(0, equals), word->substr(equals + 1));
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

Environment settle(const Environment& left, const Environment& before) {
  Environment settled;
  for (const auto& [name, value] : left)
    if (!is_shells_own(name) && !is_ours(name)) settled.add(name, value);
  for (const auto& [name, value] : before) {
    const bool never_in_shell = !can_be_in_a_shell(name) && !name.starts_with("BASH_FUNC_");
    if (is_shells_own(name) || (never_in_shell && !left.has(name))) settled.add(name, value);
  }
  return settled;
}

}  // namespace muster::environment
