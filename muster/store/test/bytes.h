#pragma once

#include <cctype>
#include <string>
#include <string_view>

#include "muster/base/error.h"

namespace muster::store {

// "06 01.. 02.. '/k'": pairs of hex digits are bytes, ".." seven zeros, which make a u64 of the byte before, and quoted
// text stands for itself.
inline std::string bytes(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size();) {
    if (std::isspace(static_cast<unsigned char>(pattern[i])) != 0) {
      ++i;
    } else if (pattern[i] == '\'') {
      size_t close = pattern.find('\'', i + 1);
      MUSTER_CHECK(close != std::string_view::npos);
      out += pattern.substr(i + 1, close - i - 1);
      i = close + 1;
    } else if (pattern.substr(i, 2) == "..") {
      out.append(7, '\0');
      i += 2;
    } else {
      out += static_cast<char>(std::stoi(std::string(pattern.substr(i, 2)), nullptr, 16));
      i += 2;
    }
  }
  return out;
}

}  // namespace muster::store
