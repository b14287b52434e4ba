#include "muster/environment/assignments.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/printable.h"
#include "muster/base/strings.h"

namespace muster::environment {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

bool is_name(std::string_view name) {
  return !name.empty() && std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '=' || c == '"' || c == '\'' || c == '\x7f';
  });
}

class EnvFile {
 public:
  explicit EnvFile(std::string_view text) : text_(text) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  Result<Assignments> parse() {
    Assignments all;
    for (; at_ < text_.size(); next_line()) {
      skip_blanks();
      if (at_line_end()) continue;
      skip_export();
      MUSTER_TRY(Assignment assignment, read_assignment());
      all.push_back(std::move(assignment));
    }
    return all;
  }

 private:
  bool at(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool at_line_end() const { return at_ >= text_.size() || at('\n') || at('#'); }
  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }
  void next_line() {
    const size_t end = text_.find('\n', at_);
    at_ = end == std::string_view::npos ? text_.size() : end + 1;
    ++line_;
  }
  void skip_export() {
    constexpr std::string_view kExport = "export";
    if (!text_.substr(at_).starts_with(kExport)) return;
    const size_t behind = at_ + kExport.size();
    if (behind >= text_.size() || (text_[behind] != ' ' && text_[behind] != '\t')) return;
    at_ = behind;
    skip_blanks();
  }

  Error wrong(std::string_view what, int line) const {
    return {ErrorKind::kUsage, fmt::format("line {}: {}", line, what), "write NAME=VALUE"};
  }

  Result<Assignment> read_assignment() {
    const size_t end = std::min(text_.find_first_of("=\n#", at_), text_.size());
    std::string name(trim(text_.substr(at_, end - at_)));
    if (!is_name(name)) return wrong(fmt::format("'{}' is not a name of a variable", escaped(name)), line_);
    at_ = end;
    if (!at('=')) return Assignment{std::move(name), std::nullopt};
    ++at_;
    skip_blanks();
    MUSTER_TRY(std::string value, at('"') || at('\'') ? quoted() : Result<std::string>(plain()));
    if (value.find('\0') != std::string::npos) return wrong("a value cannot have a NUL", line_);
    return Assignment{std::move(name), std::move(value)};
  }

  std::string plain() {
    const size_t begin = at_;
    while (at_ < text_.size() && !at('\n')) {
      if (at('#') && (at_ == begin || is_blank(text_[at_ - 1]))) break;
      ++at_;
    }
    return std::string(trim(text_.substr(begin, at_ - begin)));
  }

  Result<std::string> quoted() {
    const char quote = text_[at_++];
    const int began = line_;
    std::string value;
    for (; at_ < text_.size() && !at(quote); ++at_) {
      if (at('\n')) ++line_;
      if (quote == '"' && at('\\') && at_ + 1 < text_.size()) {
        value += unescaped(text_[++at_]);
        if (at('\n')) ++line_;
      } else {
        value += text_[at_];
      }
    }
    if (at_ >= text_.size()) return wrong(fmt::format("the {} that opens here is never closed", quote), began);
    ++at_;
    skip_blanks();
    if (!at_line_end()) return wrong("something follows the closing quote", line_);
    return value;
  }

  static std::string unescaped(char c) {
    switch (c) {
      case 'n':
        return "\n";
      case 't':
        return "\t";
      case 'r':
        return "\r";
      case '\\':
      case '"':
      case '$':
        return {c};
      default:
        return {'\\', c};
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

Result<Assignment> parse_assignment(std::string_view word) {
  const size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  if (!is_name(name))
    return Error{ErrorKind::kUsage, fmt::format("'{}' is not a name of a variable", escaped(name)), "write NAME=VALUE"};
  if (equals == std::string_view::npos) return Assignment{name, std::nullopt};
  return Assignment{name, word.substr(equals + 1)};
}

Result<Assignments> parse_env_file(std::string_view text) { return EnvFile(text).parse(); }

Environment fill_in(const Assignments& assignments, const GetEnv& getenv) {
  Environment set;
  for (const auto& [name, value] : assignments) {
    auto known = value ? value : getenv(name);
    if (known) set.set(name, *std::move(known));
  }
  return set;
}

}  // namespace muster::environment
