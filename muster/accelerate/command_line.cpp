#include "muster/accelerate/command_line.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "muster/base/strings.h"
#include "muster/base/usage_error.h"

namespace muster::accelerate {
namespace {

std::string dashed(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

Error invalid(const Option& option, std::string_view type, const std::string& value) {
  return usage_error("argument --{}: invalid {} value: '{}'", option.name, type, value);
}

std::optional<double> to_number(std::string_view text) {
  double value = 0;
  if (text.starts_with('+')) text.remove_prefix(1);
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<std::string> three_of(const Option& option, const std::string& value) {
  std::vector<std::string> parts;
  for (std::string_view part : split(value, ',')) {
    auto yes = yes_or_no(trim(part));
    if (!yes) return invalid(option, "bool", value);
    parts.emplace_back(*yes ? "1" : "0");
  }
  if (parts.size() != 3) return usage_error("argument --{}: '{}' does not name three", option.name, value);
  return join(parts, ",");
}

// The value as Python would show it; nothing for an empty number.
Result<std::optional<std::string>> read_value(const Option& option, const std::string& value) {
  if (!option.choices.empty()) {
    auto choices = split(option.choices, '|');
    if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
      std::string list(option.choices);
      for (size_t bar = list.find('|'); bar != std::string::npos; bar = list.find('|', bar)) list.replace(bar, 1, ", ");
      return Error{ErrorKind::kUsage, fmt::format("argument --{}: invalid choice: '{}'", option.name, value),
                   fmt::format("choose {}", list)};
    }
  }
  switch (option.kind) {
    case Kind::kInteger: {
      if (trim(value).empty()) return std::optional<std::string>();
      const auto number = parse_integer(option, trim(value));
      if (!number) return invalid(option, "int", value);
      return std::optional(std::to_string(*number));
    }
    case Kind::kNumber: {
      if (trim(value).empty()) return std::optional<std::string>();
      auto number = to_number(trim(value));
      if (!number) return invalid(option, "float", value);
      return std::optional(python_number(*number));
    }
    case Kind::kBool:
      return std::optional<std::string>(value.empty() ? "False" : "True");
    case Kind::kYesNo: {
      auto yes = yes_or_no(value);
      if (!yes) return invalid(option, "bool", value);
      return std::optional<std::string>(*yes ? "1" : "0");
    }
    case Kind::kThree: {
      MUSTER_TRY(std::string three, three_of(option, value));
      return std::optional(three);
    }
    case Kind::kFlag:
    case Kind::kText:
      break;
  }
  return std::optional(value);
}

// A word that argparse would not take for the value of the option before it.
bool looks_like_option(const std::string& word) {
  if (word.size() < 2 || word[0] != '-' || word.find(' ') != std::string::npos) return false;
  return !to_number(word);
}

class Parser {
 public:
  Parser(const std::vector<std::string>& words, const LookUp& own_option) : words_(words), own_option_(own_option) {}

  Result<CommandLine> parse() {
    while (next_ < words_.size() && !line_.help) {
      const std::string& word = words_[next_];
      if (word.size() < 2 || word[0] != '-') break;
      ++next_;
      if (word == "--") break;
      MUSTER_TRY_VOID(word.starts_with("--") ? read_long(word) : read_short(word));
    }
    if (line_.help) return std::move(line_);
    line_.program.assign(words_.begin() + static_cast<ptrdiff_t>(next_), words_.end());
    if (line_.program.empty())
      return Error{ErrorKind::kUsage, "the following arguments are required: training_script",
                   "write accelerate launch [OPTION…] train.py"};
    return std::move(line_);
  }

 private:
  Result<void> read_long(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);
    if (name == "help" || dashed(name) == "help-all") {
      line_.help = true;
      line_.help_all = name != "help";
      return {};
    }
    const Option* option = find_option(name);
    if (option != nullptr && option->group == Group::kInternal) option = nullptr;
    return option != nullptr ? read(*option, value) : read_own(word, name, value);
  }

  // "-m", "-qm", "-t3", "-t 3"
  Result<void> read_short(const std::string& word) {
    for (size_t i = 1; i < word.size(); ++i) {
      if (word[i] == 'h') {
        line_.help = true;
        return {};
      }
      const Option* option = find_short(word[i]);
      if (option == nullptr) return unknown(word, word.substr(1));
      if (!option->takes_value()) {
        MUSTER_TRY_VOID(read(*option, std::nullopt));
        continue;
      }
      const size_t begin = i + 1 < word.size() && word[i + 1] == '=' ? i + 2 : i + 1;
      return read(*option, i + 1 < word.size() ? std::optional(word.substr(begin)) : std::nullopt);
    }
    return {};
  }

  Result<void> read(const Option& option, std::optional<std::string> value) {
    if (!option.takes_value()) {
      if (value) return usage_error("argument --{}: ignored explicit argument '{}'", option.name, *value);
      line_.settings.set(option.name, "True", Source::kCommandLine);
      return {};
    }
    if (!value) {
      if (next_ == words_.size() || looks_like_option(words_[next_]))
        return usage_error("argument --{}: expected one argument", option.name);
      value = words_[next_++];
    }
    MUSTER_TRY(std::optional<std::string> read, read_value(option, *value));
    if (read || option.default_value == nullptr)
      line_.settings.set(option.name, read, read ? Source::kCommandLine : Source::kDefault);
    return {};
  }

  Result<void> read_own(const std::string& word, const std::string& name, const std::optional<std::string>& value) {
    const OwnOption own = own_option_(dashed(name));
    if (own == OwnOption::kUnknown) return unknown(word, name);
    line_.own.push_back("--" + dashed(name) + (value ? "=" + *value : ""));
    if (own == OwnOption::kFlag || value) return {};
    if (next_ == words_.size()) return usage_error("argument --{}: expected one argument", name);
    line_.own.back() += "=" + words_[next_++];
    return {};
  }

  static Error unknown(const std::string& word, const std::string& name) {
    const std::string nearest = nearest_flag(name);
    return {ErrorKind::kUsage, fmt::format("unrecognized arguments: {}", word),
            nearest.empty() ? "muster accelerate launch --help-all lists all options"
                            : fmt::format("did you mean {}?", nearest)};
  }

  const std::vector<std::string>& words_;
  const LookUp& own_option_;
  size_t next_ = 0;
  CommandLine line_;
};

}  // namespace

std::optional<bool> yes_or_no(std::string_view text) {
  const std::string word = lower_case(text);
  for (std::string_view yes : {"y", "yes", "t", "true", "on", "1"})
    if (word == yes) return true;
  for (std::string_view no : {"n", "no", "f", "false", "off", "0"})
    if (word == no) return false;
  return std::nullopt;
}

Result<CommandLine> parse_command_line(const std::vector<std::string>& words, const LookUp& own_option) {
  return Parser(words, own_option).parse();
}

}  // namespace muster::accelerate
