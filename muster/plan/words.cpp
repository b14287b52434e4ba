#include <algorithm>
#include <utility>

#include "muster/base/strings.h"
#include "muster/net/address.h"
#include "muster/plan/known.h"

// Words whose meaning depends on where they are used.
namespace muster::plan {

Result<Endpoint> parse_endpoint(std::string_view text) {
  text = trim(text);
  if (text.empty()) return Endpoint{"localhost", -1};
  MUSTER_TRY(net::HostPort parts, net::parse_endpoint(text));
  auto allowed = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
           c == ':' || c == '-' || static_cast<unsigned char>(c) >= 0x80;  // UTF-8
  };
  if (parts.host.empty() || !std::all_of(parts.host.begin(), parts.host.end(), allowed))
    return Error{ErrorKind::kUsage, fmt::format("'{}' is not the name of a host", text), "write HOST:PORT"};
  return Endpoint{std::move(parts.host), parts.port ? *parts.port : -1};
}

Result<std::string> host_of(const job::Asked<std::string>& address) {
  auto parsed = parse_endpoint(*address + ":0");
  if (parsed) return parsed->host;
  return address.about({ErrorKind::kUsage, fmt::format("'{}' is not the name of a host", *address),
                        "write the name or the address of the first node"});
}

Result<std::vector<std::string>> split_command(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool begun = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0 && c == quote) {
      const bool doubled = i + 1 < text.size() && text[i + 1] == quote;
      if (doubled) word += text[++i];
      if (!doubled) quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
      begun = true;
    } else if (quote == 0 && c == ' ') {
      if (begun) words.push_back(std::exchange(word, {}));
      begun = false;
    } else {
      word += c;
      begun = true;
    }
  }
  if (quote != 0)
    return Error{ErrorKind::kUsage, fmt::format("there is no second {} in {}", quote, text), "close the quote"};
  if (begun) words.push_back(std::move(word));
  if (words.empty()) return Error{ErrorKind::kUsage, "it is empty", "name a program, or leave it out"};
  return words;
}

}  // namespace muster::plan
