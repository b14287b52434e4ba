#include "muster/environment/secrets.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "muster/base/strings.h"

namespace muster::environment {
namespace {

constexpr std::array<std::string_view, 10> kWords = {"AUTH", "COOKIE", "CREDENTIAL", "CREDENTIALS", "DSN",
                                                     "KEYS", "PASS",   "PAT",        "SECRETS",     "TOKENS"};
constexpr std::array<std::string_view, 7> kEndings = {"KEY",        "TOKEN",  "SECRET", "PASSWORD",
                                                      "PASSPHRASE", "PASSWD", "COOKIE"};
constexpr std::array<std::string_view, 9> kTokenBeginnings = {"ghp_", "gho_", "ghs_",  "github_pat_", "glpat-",
                                                              "hf_",  "sk-",  "xoxb-", "AKIA"};
constexpr size_t kTokenLength = 20;

bool is_token_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }

// Where the token that begins here ends; 0: none does.
size_t token_length(std::string_view text) {
  if (std::none_of(kTokenBeginnings.begin(), kTokenBeginnings.end(),
                   [&](std::string_view beginning) { return text.starts_with(beginning); }))
    return 0;
  const auto end = std::find_if_not(text.begin(), text.end(), is_token_character);
  const auto length = static_cast<size_t>(end - text.begin());
  return length >= kTokenLength ? length : 0;
}

// Of "user:password@host/…": where the password is, as (begin, length). Whole userinfo where there is no colon is a name.
std::pair<size_t, size_t> password_in(std::string_view authority) {
  authority = authority.substr(0, authority.find_first_of("/?# \t\r\n\"'<>"));
  const size_t at = authority.rfind('@');
  if (at == std::string_view::npos) return {0, 0};
  const size_t colon = authority.find(':');
  if (colon == std::string_view::npos || colon > at) return {0, 0};
  return {colon + 1, at - colon - 1};
}

bool separates(char c) { return c == ',' || c == ';' || c == ' ' || c == '\t' || c == '\n'; }

// Whether "NAME=" or "Name = " begins here.
bool assigns(std::string_view text) {
  text =
      text.substr(static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_token_character) - text.begin()));
  return text.substr(std::min(text.find_first_not_of(' '), text.size())).starts_with('=');
}

// Of a text behind "NAME=": where the value ends. Since a secret may have any character in it, only the next assignment
// tells; PBS writes a comma of the value as "\,".
size_t value_length(std::string_view text) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    const bool escaped = i > 0 && text[i - 1] == '\\';
    if (!separates(text[i]) || escaped) continue;
    const auto next = std::find_if_not(text.begin() + static_cast<ptrdiff_t>(i), text.end(), separates);
    if (next != text.end() && is_token_character(*next) && assigns({next, text.end()})) return i;
    i = static_cast<size_t>(next - text.begin()) - 1;
  }
  return text.size() - (text.ends_with('\n') ? 1 : 0);
}

// "--api-key VALUE", as in the arguments of a job that a scheduler shows.
std::string masked_options(std::string_view text) {
  std::string result;
  for (size_t at = text.find("--"); at != std::string_view::npos; at = text.find("--")) {
    const auto* end = std::find_if_not(text.begin() + at, text.end(), is_token_character);
    const std::string_view option(text.begin() + at, end);
    const size_t value = std::min(text.find_first_not_of(' ', at + option.size()), text.size());
    result.append(text.substr(0, value));
    const bool secret = value > at + option.size() && is_secret_name(option);
    text.remove_prefix(value);
    if (!secret || text.starts_with('-')) continue;
    const size_t length = std::min(text.find_first_of(" \t\n"), text.size());
    if (length > 0) result += kMask;
    text.remove_prefix(length);
  }
  return result.append(text);
}

// NAME=VALUE, as a word of its own, behind --env=, or one of several in a prologue: nothing is shown from the first
// secret on, since where its value ends is for a shell to know.
std::string masked_word(std::string_view word) {
  size_t name = 0;
  for (size_t equals = word.find('='); equals != std::string_view::npos; equals = word.find('=', name)) {
    const bool secret = is_secret_name(word.substr(name, equals - name));
    name = equals + 1;
    if (secret) return masked_text(word.substr(0, name)).append(name < word.size() ? kMask : "");
  }
  return masked_text(word);
}

}  // namespace

bool is_secret_name(std::string_view name) {
  if (name == "SSH_AUTH_SOCK") return false;  // a path
  std::string upper = upper_case(name);
  std::replace(upper.begin(), upper.end(), '-', '_');
  for (std::string_view word : split(upper, '_')) {
    if (std::find(kWords.begin(), kWords.end(), word) != kWords.end()) return true;
    if (std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view end) { return word.ends_with(end); }))
      return true;
  }
  return false;
}

std::string masked(std::string_view name, std::string_view value) {
  if (value.empty()) return {};
  if (is_secret_name(name) || value.find("-----BEGIN") != std::string_view::npos) return std::string(kMask);
  return masked_assignments(value);
}

std::string masked_assignments(std::string_view text) {
  std::string result;
  for (size_t equals = text.find('='); equals != std::string_view::npos; equals = text.find('=')) {
    const std::string_view before = text.substr(0, equals);
    const auto name = std::find_if_not(before.rbegin(), before.rend(), is_token_character).base();
    result.append(text.substr(0, equals + 1));
    text.remove_prefix(equals + 1);
    if (!is_secret_name({name, before.end()})) continue;
    const size_t length = value_length(text);
    if (length > 0) result += kMask;
    text.remove_prefix(length);
  }
  return masked_text(masked_options(result.append(text)));
}

std::string masked_text(std::string_view text) {
  constexpr std::string_view kScheme = "://";
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const bool word_begins = i == 0 || !is_token_character(text[i - 1]);
    if (const size_t length = word_begins ? token_length(text.substr(i)) : 0; length > 0) {
      result += kMask;
      i += length;
    } else if (text.substr(i).starts_with(kScheme)) {
      const auto [begin, length] = password_in(text.substr(i + kScheme.size()));
      result += kScheme;
      i += kScheme.size();
      if (length == 0) continue;
      result.append(text.substr(i, begin)).append(kMask);
      i += begin + length;
    } else {
      result += text[i++];
    }
  }
  return result;
}

std::vector<std::string> masked_words(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  bool next_is_secret = false;
  for (const std::string& word : words) {
    const bool option = word.starts_with("-");
    if (std::exchange(next_is_secret, false) && !option) {
      result.emplace_back(kMask);
      continue;
    }
    result.push_back(masked_word(word));
    // Where an option's value is the next word.
    next_is_secret = option && word.find('=') == std::string::npos && is_secret_name(word);
  }
  return result;
}

}  // namespace muster::environment
