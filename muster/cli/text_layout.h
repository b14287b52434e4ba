#pragma once

#include <string>
#include <string_view>

namespace muster::cli {

// How text is shown: how wide, and whether headings may stand out.
struct TextStyle {
  int width = 80;
  bool bold = false;
};

// Of a descriptor: a terminal's width and, unless NO_COLOR is set, bold; 80 plain columns else.
TextStyle style_of(int fd);

// Of a terminal, as it is; 0 where there is none.
int terminal_columns(int fd);

// Words filled into lines of at most `width` columns, each behind `indent` spaces and ended by a newline.
std::string wrap(std::string_view text, size_t indent, int width);
// Up to the first full stop that ends a sentence.
std::string_view first_sentence(std::string_view text);

}  // namespace muster::cli
