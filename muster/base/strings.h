#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"

namespace muster {

std::string_view trim(std::string_view text);
// "a,b,," with ',' gives a, b, "", "". An empty text gives one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);

// Changes only ASCII letters.
std::string lower_case(std::string_view text);
std::string upper_case(std::string_view text);

// Counts characters of UTF-8, not bytes.
size_t count_characters(std::string_view text);

// "0-3,8" for {0,1,2,3,8} and ','
std::string number_ranges(const std::vector<int>& ascending, std::string_view separator);

// The whole text must be one decimal number in range; no blanks, no "+".
std::optional<int64_t> parse_int(std::string_view text);

// Quotes words so that a POSIX shell reads the same words.
std::string shell_quote(std::string_view word);
std::string shell_quote(const std::vector<std::string>& words);

// Number of slips that turn a into b: a letter more, less or wrong, or two neighbours swapped. For "did you mean".
size_t edit_distance(std::string_view a, std::string_view b);
// How many slips a word of this length may have and still be recognized: one in a short word, three in a long one.
size_t slips_allowed(size_t length);

// "0.25 s", "3 s", "3600 s"
std::string seconds_text(Duration duration);
// The same for measured times, which are never exact: "0.3 s", "3.0 s", "3600 s"
std::string elapsed_text(Duration duration);

// The word that a mistyped word resembles most, if it resembles one. Of two equally near, the one with the same start.
std::optional<std::string_view> nearest_word(std::string_view typed, const std::vector<std::string_view>& words);

}  // namespace muster
