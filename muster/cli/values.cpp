#include "muster/cli/values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "muster/base/strings.h"
#include "muster/process/signals.h"
#include "muster/process/typed_gpus.h"

namespace muster::cli {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Python counts the four separators 0x1c to 0x1f as blanks too.
std::string_view python_strip(std::string_view text) {
  auto blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f); };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Removes the underscores Python allows between digits; nothing when one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
      continue;
    }
    if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) return std::nullopt;
  }
  return digits;
}

std::optional<int64_t> small_int(std::string_view text) {
  auto canonical = python_int(text);
  return canonical ? parse_int(*canonical) : std::nullopt;
}

// digits [. digits] [e [sign] digits], with digits on one side of the point at least.
bool is_decimal_number(std::string_view text) {
  size_t i = 0;
  auto digits = [&] {
    size_t begin = i;
    while (i < text.size() && is_digit(text[i])) ++i;
    return i - begin;
  };
  size_t mantissa = digits();
  if (i < text.size() && text[i] == '.') {
    ++i;
    mantissa += digits();
  }
  if (mantissa == 0) return false;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (digits() == 0) return false;
  }
  return i == text.size();
}

}  // namespace

std::optional<std::string> python_int(std::string_view text) {
  constexpr size_t kMaxDigits = 4300;  // sys.get_int_max_str_digits()
  text = python_strip(text);
  bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  auto digits = without_underscores(text);
  if (!digits || digits->empty() || digits->size() > kMaxDigits) return std::nullopt;
  if (!std::all_of(digits->begin(), digits->end(), is_digit)) return std::nullopt;
  digits->erase(0, std::min(digits->find_first_not_of('0'), digits->size() - 1));
  return negative && *digits != "0" ? "-" + *digits : *digits;
}

std::optional<double> python_float(std::string_view text) {
  text = python_strip(text);
  double sign = 1;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    sign = text[0] == '-' ? -1 : 1;
    text.remove_prefix(1);
  }
  const std::string lower = lower_case(text);
  if (lower == "inf" || lower == "infinity") return sign * HUGE_VAL;
  if (lower == "nan") return std::nan("");
  auto digits = without_underscores(text);
  if (!digits || !is_decimal_number(*digits)) return std::nullopt;
  return sign * std::strtod(digits->c_str(), nullptr);
}

std::string python_repr(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string shown(1, quote);
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      shown += '\\';
      shown += c;
    } else if (c == '\n') {
      shown += "\\n";
    } else if (c == '\t') {
      shown += "\\t";
    } else if (c == '\r') {
      shown += "\\r";
    } else if (byte < 0x20 || byte == 0x7f) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += c;
    }
  }
  return shown + quote;
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      items.back() += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == ',') {
      items.back() += ',';
      ++i;
    } else {
      items.emplace_back();
    }
  }
  return items;
}

Result<job::NodeRange> parse_nodes(std::string_view text) {
  auto parts = split(text, ':');
  auto min = small_int(parts[0]);
  auto max = parts.size() == 2 ? small_int(parts[1]) : min;
  if (parts.size() > 2 || !min || !max)
    return Error{ErrorKind::kUsage, fmt::format("'{}' is not a number of nodes", text), "write N or MIN:MAX"};
  constexpr int64_t kMost = 1'000'000;
  if (*min < 1 || *max > kMost)
    return Error{ErrorKind::kUsage, fmt::format("'{}' is out of range", text), "at least one node is needed"};
  if (*min > *max)
    return Error{ErrorKind::kUsage, fmt::format("the minimum of '{}' is above its maximum", text), "write MIN:MAX"};
  return job::NodeRange{static_cast<int>(*min), static_cast<int>(*max), parts.size() == 2};
}

Result<job::WorkerCount> parse_worker_count(std::string_view text) {
  constexpr int64_t kMost = 1'000'000;
  using job::Countable;
  for (Countable what : {Countable::kCpu, Countable::kGpu, Countable::kXpu, Countable::kAuto})
    if (text == job::WorkerCount{what}.text()) return job::WorkerCount{what};
  const auto typed = process::parse_typed_gpus(text);
  const std::string number = typed ? std::to_string(*typed) : std::string(text);
  auto count = small_int(number);
  const bool huge = count ? *count > kMost : python_int(number).value_or("-").front() != '-';
  if (huge)
    return Error{ErrorKind::kUsage, fmt::format("{} workers are more than a node can have", number),
                 fmt::format("write a number up to {}", kMost)};
  if (!count)
    return Error{ErrorKind::kUsage, fmt::format("'{}' is not a number of workers", text),
                 "write a number, gpu, cpu, xpu or auto"};
  if (*count < 1) return Error{ErrorKind::kUsage, fmt::format("{} is too small", *count), "it must be at least 1"};
  return job::WorkerCount{job::Countable::kNumber, static_cast<int>(*count)};
}

Result<std::map<std::string, std::string>> parse_rendezvous_conf(std::string_view text) {
  std::map<std::string, std::string> conf;
  text = python_strip(text);
  if (text.empty()) return conf;
  for (std::string_view item : split(text, ',')) {
    size_t equals = item.find('=');
    std::string key(python_strip(item.substr(0, equals)));
    if (key.empty())
      return Error{ErrorKind::kUsage, fmt::format("'{}' has an entry without a name", text),
                   "write KEY=VALUE,KEY=VALUE"};
    std::string_view value = equals == std::string_view::npos ? "" : python_strip(item.substr(equals + 1));
    if (value.empty())
      return Error{ErrorKind::kUsage, fmt::format("'{}' has no value", key), fmt::format("write {}=VALUE", key)};
    conf[key] = value;
  }
  return conf;
}

std::string_view without_quotes(std::string_view text) {
  const bool quoted = text.size() > 1 && (text[0] == '\'' || text[0] == '"') && text.back() == text[0];
  return quoted ? text.substr(1, text.size() - 2) : text;
}

Result<void> check_rendezvous_conf(const std::map<std::string, std::string>& conf) {
  constexpr std::array<std::string_view, 8> kNumbers = {
      "timeout",           "join_timeout",        "last_call_timeout",      "close_timeout",
      "heartbeat_timeout", "keep_alive_interval", "keep_alive_max_attempt", "read_timeout"};
  constexpr std::array<std::string_view, 10> kAnswers = {"1", "true", "t", "yes", "y", "0", "false", "f", "no", "n"};
  auto one_of = [](const auto& words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  for (const auto& [key, value] : conf) {
    auto wrong = [&key = key, &value = value](std::string_view hint) {
      return Error{ErrorKind::kUsage, fmt::format("'{}' is not a value for {}", value, key), std::string(hint)};
    };
    auto number = parse_int(value);
    if (one_of(kNumbers, key) && (!number || *number <= 0)) return wrong("write a whole number above 0");
    if (key == "is_host" && !one_of(kAnswers, lower_case(value))) return wrong("write 1 or 0");
    if (key == "store_type" && value != "tcp" && value != "file") return wrong("write tcp or file");
  }
  return {};
}

Result<job::StreamMasks> parse_stream_masks(std::string_view text, RankSyntax syntax) {
  const Error malformed{ErrorKind::kUsage, fmt::format("'{}' selects no streams", text),
                        "write 0, 1 (stdout), 2 (stderr) or 3 (both) for all, or RANK:MASK,RANK:MASK"};
  auto is_mask = [](std::string_view mask) { return mask.size() == 1 && mask[0] >= '0' && mask[0] <= '3'; };
  job::StreamMasks masks;
  // Python's $ also matches before a final newline.
  if (syntax == RankSyntax::kTorchrun && text.ends_with('\n')) text.remove_suffix(1);
  if (is_mask(text)) return job::StreamMasks{text[0] - '0', {}};
  masks.all.reset();
  for (std::string_view item : split(text, ',')) {
    size_t colon = item.find(':');
    if (colon == std::string_view::npos || !is_mask(item.substr(colon + 1))) return malformed;
    std::string_view rank_text = item.substr(0, colon);
    if (rank_text.empty() || !std::all_of(rank_text.begin(), rank_text.end(), is_digit)) return malformed;
    if (syntax == RankSyntax::kTorchrun && rank_text.size() != 1) return malformed;
    auto rank = parse_int(rank_text);
    if (!rank || *rank > INT32_MAX) return malformed;
    masks.by_rank[static_cast<int>(*rank)] = item[colon + 1] - '0';
  }
  return masks;
}

Result<std::set<int>> parse_ranks(std::string_view text) {
  std::set<int> ranks;
  for (std::string_view item : split(text, ',')) {
    auto rank = small_int(item);
    if (!rank || *rank > INT32_MAX || *rank < INT32_MIN)
      return Error{ErrorKind::kUsage, fmt::format("'{}' is not a list of ranks", text), "write e.g. 0,1,2"};
    ranks.insert(static_cast<int>(*rank));
  }
  return ranks;
}

SignalList parse_signals(std::string_view text) {
  SignalList list;
  for (std::string_view item : split(text, ',')) {
    std::string_view name = python_strip(item);
    if (auto number = process::parse_signal(name)) {
      list.signals.push_back(*number);
    } else {
      list.unknown.emplace_back(name);
    }
  }
  return list;
}

Result<uint64_t> parse_size(std::string_view text) {
  const Error malformed{ErrorKind::kUsage, fmt::format("'{}' is not a size", text),
                        "write e.g. 4096, 64KiB, 512MiB or 2GiB"};
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return malformed;
  std::string unit = lower_case({rest, end});
  if (unit.ends_with("ib")) {
    unit.resize(unit.size() - 2);
  } else if (unit.ends_with('b')) {
    unit.pop_back();
  }
  constexpr std::string_view kUnits = "kmgt";
  size_t power = 0;
  if (!unit.empty()) {
    if (unit.size() != 1 || kUnits.find(unit[0]) == std::string_view::npos) return malformed;
    power = kUnits.find(unit[0]) + 1;
  }
  if (power > 0 && number > (UINT64_MAX >> (10 * power))) return malformed;
  return number << (10 * power);
}

Result<job::PortRange> parse_port_range(std::string_view text) {
  const size_t dash = text.find('-');
  auto first = parse_int(text.substr(0, dash));
  auto last = dash == std::string_view::npos ? first : parse_int(text.substr(dash + 1));
  constexpr int64_t kMost = 65535;
  if (!first || !last || *first < 1 || *last > kMost || *first > *last)
    return Error{ErrorKind::kUsage, fmt::format("'{}' is not a range of ports", text),
                 "write A-B with numbers from 1 to 65535"};
  return job::PortRange{static_cast<uint16_t>(*first), static_cast<uint16_t>(*last)};
}

bool says_yes(std::string_view answer) {
  constexpr std::string_view kYes = "1ty";
  return !answer.empty() && kYes.find(lower_case(answer)[0]) != std::string_view::npos;
}

Result<void> check_prefix_template(std::string_view text) {
  constexpr std::array<std::string_view, 4> kNames = {"role_name", "local_rank", "rank", "hostname"};
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$' || i + 1 == text.size()) continue;
    if (text[i + 1] == '$') {
      ++i;
      continue;
    }
    size_t begin = i + 1 + (text[i + 1] == '{' ? 1 : 0);
    size_t end = begin;
    while (end < text.size() && (is_letter(text[end]) || (end > begin && is_digit(text[end])))) ++end;
    std::string_view name = text.substr(begin, end - begin);
    if (name.empty()) continue;
    if (std::find(kNames.begin(), kNames.end(), name) == kNames.end())
      return Error{ErrorKind::kUsage, fmt::format("'${{{}}}' has no meaning in '{}'", name, text),
                   "the names are ${role_name}, ${local_rank}, ${rank} and ${hostname}; $$ is a dollar sign"};
    i = end - 1;
  }
  return {};
}

}  // namespace muster::cli
