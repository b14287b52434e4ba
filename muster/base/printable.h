#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Makes one line of foreign bytes safe for a terminal and for JSON: escape sequences are removed, other control
// bytes shown as \xNN (a tab stays, what a \r overwrote is dropped), invalid UTF-8 becomes U+FFFD. Pure.
std::string printable(std::string_view line);

// Makes foreign text safe inside one of muster's sentences. Nothing is dropped, so it cannot hide the rest. All control
// bytes except tabs are shown as \xNN, invalid UTF-8 becomes U+FFFD. Pure.
std::string escaped(std::string_view text);

// The last `count` lines of a text, printable; blank lines at its end are left out.
std::vector<std::string> last_lines(std::string_view text, size_t count);

}  // namespace muster
