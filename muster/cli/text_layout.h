#pragma once

#include <string>
#include <string_view>

namespace muster::cli {

// How to show text: its width, and whether headings are bold.
struct TextStyle {
  int width = 80;
  bool bold = false;
};

// The style for a descriptor. A terminal: its width, and bold unless NO_COLOR is set. Else 80 columns, not bold.
TextStyle style_of(int fd);

// The width of a terminal; 0 if `fd` is not a terminal.
int terminal_columns(int fd);

// Fills words into lines of at most `width` columns. Each line starts with `indent` spaces and ends with a newline.
std::string wrap(std::string_view text, size_t indent, int width);
// The text up to the first ". ", without the full stop.
std::string_view first_sentence(std::string_view text);

}  // namespace muster::cli
