#include "muster/base/printable.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/strings.h"

namespace muster {
namespace {

constexpr char kEscape = '\x1b';
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Length of the escape sequence at the front: CSI (ESC [ … final byte), OSC (ESC ] … BEL or ESC \), or two bytes.
size_t escape_length(std::string_view text) {
  if (text.size() < 2) return text.size();
  if (text[1] == '[') {
    size_t i = 2;
    while (i < text.size() && (text[i] < 0x40 || text[i] > 0x7e)) ++i;
    return std::min(i + 1, text.size());
  }
  if (text[1] == ']') {
    size_t i = 2;
    while (i < text.size() && text[i] != '\a' && text[i] != kEscape) ++i;
    if (i < text.size() && text[i] == kEscape) ++i;
    return std::min(i + 1, text.size());
  }
  return 2;
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Length of the valid UTF-8 sequence at the front; 0 if there is none (overlong forms and surrogates are not valid).
size_t sequence_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(0);
  if (first < 0x80) return 1;
  size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if (!is_continuation(text[i])) return 0;
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  // U+0080 to U+009F are control characters too; some terminals obey them.
  if (first == 0xC2 && byte(1) < 0xA0) return 0;
  return length;
}

// Takes one character off the front of `rest`, and shows it.
void show_next(std::string_view& rest, std::string& text) {
  const char c = rest[0];
  size_t length = sequence_length(rest);
  if (length == 0) {
    text += kReplacement;
    length = 1;
  } else if (length == 1 && ((c >= 0 && c < ' ' && c != '\t') || c == '\x7f')) {
    text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  } else {
    text += rest.substr(0, length);
  }
  rest.remove_prefix(length);
}

}  // namespace

std::string printable(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (size_t overwritten = line.rfind('\r'); overwritten != std::string_view::npos) line.remove_prefix(overwritten + 1);
  std::string text;
  while (!line.empty()) {
    if (line[0] == kEscape)
      line.remove_prefix(escape_length(line));
    else
      show_next(line, text);
  }
  return text;
}

std::string escaped(std::string_view text) {
  std::string shown;
  while (!text.empty()) show_next(text, shown);
  return shown;
}

std::vector<std::string> last_lines(std::string_view text, size_t count) {
  std::vector<std::string> lines;
  while (!text.empty() && lines.size() < count) {
    size_t begin = text.rfind('\n');
    std::string_view line = begin == std::string_view::npos ? text : text.substr(begin + 1);
    std::string clean = printable(line);
    if (!lines.empty() || !trim(clean).empty()) lines.push_back(std::move(clean));
    text = begin == std::string_view::npos ? std::string_view() : text.substr(0, begin);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

}  // namespace muster
