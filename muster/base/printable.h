#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// One line of somebody else's bytes made safe for a terminal and for JSON: escape sequences are removed, other control
// bytes shown as \xNN (a tab stays, what a \r overwrote is dropped), invalid UTF-8 becomes U+FFFD. Pure.
std::string printable(std::string_view line);

// Somebody else's words within a sentence of ours: nothing is dropped, so that no byte of theirs hides one of ours. All
// control bytes but a tab are shown as \xNN, invalid UTF-8 becomes U+FFFD. Pure.
std::string escaped(std::string_view text);

// The last `count` lines of a text, printable; blank lines at its end are left out.
std::vector<std::string> last_lines(std::string_view text, size_t count);

}  // namespace muster
