#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "muster/accelerate/config_file.h"
#include "muster/base/strings.h"

namespace muster::accelerate {
namespace {

constexpr int kMostDepth = 8;
constexpr size_t kMostValues = 20'000;  // an alias counts each time it is used

Error broken(const std::string& name, std::string_view why) {
  return {ErrorKind::kUsage, fmt::format("'{}' cannot be read as a config file: {}", name, why),
          "correct it, or make one with accelerate config"};
}

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// "yes", "Yes", "YES"; nothing in between.
bool is_word(std::string_view text, std::initializer_list<std::string_view> words) {
  for (std::string_view word : words) {
    std::string capital(word);
    capital[0] = static_cast<char>(capital[0] - 'a' + 'A');
    if (text == word || text == capital || text == upper_case(word)) return true;
  }
  return false;
}

// YAML 1.1: 1_000, 0x1F, 0b11, 017 (octal). Sixties (1:30) are times of the day and no numbers of ours.
std::optional<int64_t> yaml_integer(std::string_view text) {
  std::string digits;
  for (char c : text)
    if (c != '_') digits += c;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  int base = 10;
  size_t skip = 0;
  if (digits.starts_with("0x")) {
    base = 16, skip = 2;
  } else if (digits.starts_with("0b")) {
    base = 2, skip = 2;
  } else if (digits.size() > 1 && digits[0] == '0') {
    base = 8, skip = 1;
  }
  if (digits.size() == skip || digits[skip] == '-') return std::nullopt;
  int64_t value = 0;
  auto [end, error] = std::from_chars(digits.data() + skip, digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return negative ? -value : value;
}

// A float has a dot, and an exponent a sign: PyYAML's rule.
std::optional<double> yaml_float(std::string_view text) {
  std::string digits;
  for (char c : text)
    if (c != '_') digits += c;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  if (one_of(digits, {".inf", ".Inf", ".INF"})) return negative ? -INFINITY : INFINITY;
  if (one_of(digits, {".nan", ".NaN", ".NAN"})) return NAN;
  const size_t dot = digits.find('.');
  const size_t exponent = digits.find_first_of("eE");
  if (dot == std::string::npos || digits == "." || !(std::isdigit(static_cast<unsigned char>(digits[0])) || dot == 0))
    return std::nullopt;
  if (exponent != std::string::npos &&
      (exponent + 1 >= digits.size() || !one_of(digits.substr(exponent + 1, 1), {"+", "-"})))
    return std::nullopt;
  if (exponent != std::string::npos && digits[exponent + 1] == '+') digits.erase(exponent + 1, 1);
  double value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return negative ? -value : value;
}

Value text_value(std::string text) { return {Value::Kind::kText, std::move(text), {}, {}}; }
Value bool_value(bool yes) { return {Value::Kind::kBool, yes ? "True" : "False", {}, {}}; }
Value number_value(std::string text) { return {Value::Kind::kNumber, std::move(text), {}, {}}; }

Value plain_scalar(const std::string& text) {
  if (text.empty() || text == "~" || is_word(text, {"null"})) return {};
  if (is_word(text, {"yes", "true", "on"})) return bool_value(true);
  if (is_word(text, {"no", "false", "off"})) return bool_value(false);
  if (auto integer = yaml_integer(text)) return number_value(std::to_string(*integer));
  if (auto number = yaml_float(text)) return number_value(python_number(*number));
  return text_value(text);
}

// As Python's repr() shows it inside a list.
std::string shown(const Value& value) {
  if (value.kind == Value::Kind::kNone) return "None";
  return value.kind == Value::Kind::kText ? fmt::format("'{}'", value.text) : value.text;
}

void finish_list(Value& list) {
  std::vector<std::string> parts;
  parts.reserve(list.items.size());
  for (const Value& item : list.items) parts.push_back(shown(item));
  list.text = fmt::format("[{}]", join(parts, ", "));
}

// Builds Values with bounds on depth and number: aliases make small files large.
class Builder {
 public:
  explicit Builder(const std::string& name) : name_(name) {}

  Result<Value> build(const YAML::Node& node, int depth) {
    MUSTER_TRY_VOID(count(depth));
    if (node.IsNull() || !node.IsDefined()) return Value();
    if (node.IsScalar())
      return node.Tag() == "?" || node.Tag().empty() ? plain_scalar(node.Scalar()) : text_value(node.Scalar());
    Value value;
    value.kind = node.IsSequence() ? Value::Kind::kList : Value::Kind::kMap;
    if (node.IsSequence()) {
      for (const auto& item : node) {
        MUSTER_TRY(Value built, build(item, depth + 1));
        value.items.push_back(std::move(built));
      }
      finish_list(value);
      return value;
    }
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) return broken(name_, "a key is not a word");
      MUSTER_TRY(Value built, build(entry.second, depth + 1));
      value.entries.push_back({entry.first.Scalar(), std::move(built)});
    }
    return value;
  }

  Result<Value> build(const nlohmann::json& node, int depth) {
    MUSTER_TRY_VOID(count(depth));
    if (node.is_boolean()) return bool_value(node.get<bool>());
    if (node.is_string()) return text_value(node.get<std::string>());
    if (node.is_number_float()) return number_value(python_number(node.get<double>()));
    if (node.is_number()) return number_value(node.dump());
    Value value;
    if (node.is_array()) {
      value.kind = Value::Kind::kList;
      for (const auto& item : node) {
        MUSTER_TRY(Value built, build(item, depth + 1));
        value.items.push_back(std::move(built));
      }
      finish_list(value);
    } else if (node.is_object()) {
      value.kind = Value::Kind::kMap;
      for (const auto& [key, item] : node.items()) {
        MUSTER_TRY(Value built, build(item, depth + 1));
        value.entries.push_back({key, std::move(built)});
      }
    }
    return value;
  }

 private:
  Result<void> count(int depth) {
    if (depth > kMostDepth || ++values_ > kMostValues) return broken(name_, "it is nested too deeply, or too large");
    return {};
  }

  const std::string& name_;
  size_t values_ = 0;
};

}  // namespace

Result<Value> parse_config(std::string_view text, const std::string& name) {
  if (text.size() > kMostConfigBytes) return broken(name, "it is larger than 256 KiB");
  // yaml-cpp reports by exceptions, and not only by its own.
  try {
    Builder builder(name);
    Value value;
    if (name.ends_with(".json")) {
      MUSTER_TRY(value, builder.build(nlohmann::json::parse(text), 0));
    } else {
      MUSTER_TRY(value, builder.build(YAML::Load(std::string(text)), 0));
    }
    if (value.kind != Value::Kind::kMap) return broken(name, "there are no keys with values in it");
    return value;
  } catch (const std::exception& error) {
    return broken(name, error.what());
  }
}

}  // namespace muster::accelerate
