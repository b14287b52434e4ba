#include "muster/report/python_json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace muster::report {
namespace {

constexpr int kMaxDepth = 100;

Error broken(std::string message) { return {ErrorKind::kPeer, std::move(message), {}}; }

bool too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"')
        in_string = false;
    } else if (text[i] == '"') {
      in_string = true;
    } else if (text[i] == '[' || text[i] == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (text[i] == ']' || text[i] == '}') {
      --depth;
    }
  }
  return false;
}

// The value of "\uXXXX" at the front.
std::optional<unsigned> unicode_escape(std::string_view text) {
  if (text.size() < 6 || text[0] != '\\' || text[1] != 'u') return std::nullopt;
  unsigned value = 0;
  auto [end, error] = std::from_chars(text.data() + 2, text.data() + 6, value, 16);
  if (error != std::errc() || end != text.data() + 6) return std::nullopt;
  return value;
}

std::string without_lone_surrogates(std::string_view text) {
  auto is_high = [](unsigned v) { return v >= 0xD800 && v <= 0xDBFF; };
  auto is_low = [](unsigned v) { return v >= 0xDC00 && v <= 0xDFFF; };
  std::string result;
  while (!text.empty()) {
    size_t length = 1;
    if (auto first = unicode_escape(text)) {
      auto second = unicode_escape(text.substr(6));
      if (is_high(*first) && second && is_low(*second)) {
        length = 12;
      } else if (is_high(*first) || is_low(*first)) {
        result += "\\ufffd";
        text.remove_prefix(6);
        continue;
      }
    } else if (text[0] == '\\' && text.size() > 1) {
      length = 2;
    }
    result += text.substr(0, length);
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace

std::string python_json(const Json& value) {
  std::string text;
  if (value.is_object()) {
    for (const auto& [key, item] : value.items())
      text += (text.empty() ? "" : ", ") + Json(key).dump(-1, ' ', true, Json::error_handler_t::replace) + ": " +
              python_json(item);
    return "{" + text + "}";
  }
  if (value.is_number_float() && std::isfinite(value.get<double>())) {
    // The library's own digits are not always the shortest ones, which Python writes.
    text = fmt::format("{}", value.get<double>());
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  }
  if (value.is_array()) {
    for (const Json& item : value) text += (text.empty() ? "" : ", ") + python_json(item);
    return "[" + text + "]";
  }
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Result<Json> parse_python_json(std::string_view text) {
  if (too_deep(text)) return broken(fmt::format("it is nested more than {} levels deep", kMaxDepth));
  Json json = Json::parse(without_lone_surrogates(text), nullptr, false);
  if (json.is_discarded()) return broken("it is not valid JSON");
  return json;
}

}  // namespace muster::report
