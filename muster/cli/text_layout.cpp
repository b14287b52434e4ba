#include "muster/cli/text_layout.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "muster/base/environment.h"
#include "muster/base/strings.h"

namespace muster::cli {

TextStyle style_of(int fd) {
  TextStyle style;
  if (::isatty(fd) == 0) return style;
  style.bold = environment_variable("NO_COLOR").value_or("").empty();
  constexpr int kNarrowest = 40, kWidest = 120;
  style.width = std::clamp(terminal_columns(fd), kNarrowest, kWidest);
  return style;
}

int terminal_columns(int fd) {
  if (::isatty(fd) == 0) return 0;
  constexpr int kUsual = 80;  // if the terminal does not say
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

std::string wrap(std::string_view text, size_t indent, int width) {
  std::string lines;
  size_t used = 0;
  for (std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    if (used > 0 && used + 1 + count_characters(word) > static_cast<size_t>(width)) {
      lines += '\n';
      used = 0;
    }
    if (used == 0) {
      lines.append(indent, ' ');
      used = indent;
    } else {
      lines += ' ';
      ++used;
    }
    lines += word;
    used += count_characters(word);
  }
  return lines + "\n";
}

std::string_view first_sentence(std::string_view text) {
  size_t end = text.find(". ");
  text = text.substr(0, end);
  if (text.ends_with('.')) text.remove_suffix(1);
  return text;
}

}  // namespace muster::cli
