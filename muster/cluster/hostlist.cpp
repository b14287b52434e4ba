#include "muster/cluster/hostlist.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/base/usage_error.h"
#include "muster/cluster/hosts.h"

namespace muster::cluster {
namespace {

constexpr size_t kMaxName = 255;   // of a piece without what its brackets hold
constexpr size_t kMaxDigits = 18;  // fit into 64 bits

// "007" to "010": the first number's leading zeros set the width.
struct Range {
  int64_t first = 0, last = 0;
  size_t width = 0;
  size_t count() const { return static_cast<size_t>(last - first) + 1; }
};
// Text, and the ranges of the bracket behind it; the last part of a piece may have none.
struct Part {
  std::string_view text;
  std::vector<Range> ranges;
  size_t count = 0;  // of numbers in all ranges
};

Error too_many(std::string_view piece, size_t limit) {
  return usage_error("\"{}\" is more than {} hosts", piece.substr(0, kMaxName), limit);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= kMaxDigits && text.find_first_not_of("0123456789") == std::string_view::npos;
}

Result<Range> parse_range(std::string_view text) {
  size_t dash = text.find('-');
  std::string_view first = text.substr(0, dash);
  std::string_view last = dash == std::string_view::npos ? first : text.substr(dash + 1);
  if (!is_number(first) || !is_number(last)) {
    return usage_error("\"{}\" in brackets is neither a number nor a range such as 1-4", text.substr(0, kMaxName));
  }
  Range range{*parse_int(first), *parse_int(last), first.front() == '0' ? first.size() : 0};
  if (range.last < range.first)
    return Error{ErrorKind::kUsage, fmt::format("the range {} runs backwards", text),
                 fmt::format("write {}-{}", last, first)};
  if (last.size() > 1 && last.front() == '0' && last.size() != first.size()) {
    const size_t width = std::max(first.size(), last.size());
    return Error{ErrorKind::kUsage, fmt::format("the ends of the range {} differ in width", text),
                 fmt::format("write {:0>{}}-{:0>{}} or {}-{}", first, width, last, width, range.first, range.last)};
  }
  return range;
}

Result<Part> parse_part(std::string_view text, std::string_view bracket, size_t limit) {
  Part part{text, {}, 0};
  for (std::string_view item : split(bracket, ',')) {
    MUSTER_TRY(Range range, parse_range(trim(item)));
    if (range.count() > limit - part.count) return too_many(bracket, limit);
    part.count += range.count();
    part.ranges.push_back(range);
  }
  return part;
}

// Cuts "r[1-2]n[1-4]x" into ("r", 1-2), ("n", 1-4), ("x").
Result<std::vector<Part>> parse_parts(std::string_view piece, size_t limit) {
  std::vector<Part> parts;
  size_t total = 1, name = 0;
  for (std::string_view rest = piece; !rest.empty() || parts.empty();) {
    size_t open = rest.find('[');
    size_t close = open == std::string_view::npos ? open : rest.find(']', open);
    std::string_view text = rest.substr(0, open);
    name += text.size();
    if (name > kMaxName) return usage_error("\"{}…\" is too long for the name of a host", piece.substr(0, 32));
    if (close == std::string_view::npos) {
      parts.push_back({text, {}, 1});
      break;
    }
    MUSTER_TRY(Part part, parse_part(text, rest.substr(open + 1, close - open - 1), limit));
    name += kMaxDigits;
    total *= part.count;  // both are at most `limit`: no overflow
    if (total > limit) return too_many(piece, limit);
    parts.push_back(std::move(part));
    rest.remove_prefix(close + 1);
  }
  return parts;
}

std::vector<std::string> append_part(const std::vector<std::string>& names, const Part& part) {
  std::vector<std::string> result;
  result.reserve(names.size() * part.count);
  for (const std::string& name : names) {
    std::string front = name + std::string(part.text);
    if (part.ranges.empty()) result.push_back(front);
    for (const Range& range : part.ranges) {
      for (int64_t i = range.first; i <= range.last; ++i)
        result.push_back(fmt::format("{}{:0{}}", front, i, range.width));
    }
  }
  return result;
}

}  // namespace

Result<std::vector<std::string_view>> split_hostlist(std::string_view text) {
  std::vector<std::string_view> pieces;
  bool inside = false;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    char c = i < text.size() ? text[i] : ',';
    if ((c == '[' && inside) || (c == ']' && !inside) || (i == text.size() && inside)) {
      return Error{ErrorKind::kUsage,
                   fmt::format("the brackets of \"{}\" do not match", trim(text.substr(begin, kMaxName))),
                   "write n[1-4] or n[1,3]"};
    }
    if (c == '[' || c == ']') inside = c == '[';
    if (c != ',' || inside) continue;
    pieces.push_back(trim(text.substr(begin, i - begin)));
    if (pieces.back().empty()) {
      if (trim(text).empty()) return Error{ErrorKind::kUsage, "no host is named", "write n1,n2 or n[1-4]"};
      return Error{ErrorKind::kUsage,
                   fmt::format("a comma of \"{}\" has no host beside it", trim(text.substr(0, kMaxName))),
                   "leave it out, or write the host that is missing"};
    }
    begin = i + 1;
  }
  return pieces;
}

Result<std::vector<std::string>> expand_piece(std::string_view piece, size_t limit) {
  MUSTER_TRY(std::vector<Part> parts, parse_parts(piece, limit));
  std::vector<std::string> names{""};
  for (const Part& part : parts) names = append_part(names, part);
  return names;
}

Result<std::vector<std::string>> expand_hostlist(std::string_view text) {
  MUSTER_TRY(std::vector<std::string_view> pieces, split_hostlist(text));
  std::vector<std::string> all;
  for (std::string_view piece : pieces) {
    if (all.size() >= kMaxHosts) return too_many(text, kMaxHosts);
    MUSTER_TRY(std::vector<std::string> names, expand_piece(piece, kMaxHosts - all.size()));
    for (std::string& name : names) {
      MUSTER_TRY_VOID(check_host_name(name));
      all.push_back(std::move(name));
    }
  }
  return all;
}

}  // namespace muster::cluster
