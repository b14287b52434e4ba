#include "muster/cluster/hosts.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "muster/base/strings.h"
#include "muster/base/usage_error.h"
#include "muster/cluster/hostlist.h"
#include "muster/process/typed_gpus.h"

namespace muster::cluster {
namespace {

constexpr int64_t kMaxWorkers = 65536;
constexpr size_t kMaxMentions = size_t{1} << 20;
constexpr size_t kShown = 80;  // of a wrong piece

Result<int> parse_workers(std::string_view text, std::string_view piece) {
  const auto typed = process::parse_typed_gpus(text);
  const auto number = typed ? std::optional<int64_t>(*typed) : parse_int(text);
  if (!number || *number < 1 || *number > kMaxWorkers) {
    return usage_error("\"{}\": the number of workers must be 1 to {}, not \"{}\"", piece.substr(0, kShown),
                       kMaxWorkers, text.substr(0, kShown));
  }
  return static_cast<int>(*number);
}

// "fe80::1%eth0", also behind "user@".
bool is_ipv6(std::string_view text) {
  text.remove_prefix(text.rfind('@') == std::string_view::npos ? 0 : text.rfind('@') + 1);
  in6_addr address{};
  return inet_pton(AF_INET6, std::string(text.substr(0, text.find('%'))).c_str(), &address) == 1;
}

// What a piece names, still with Slurm's brackets, and how many workers it says, "4" or "v100:4".
struct Piece {
  std::string names;
  std::string_view workers;
  bool counted = false;
};

// "[fe80::1]:2": brackets around a colon hold an address, not numbers.
Result<std::optional<Piece>> split_ipv6(std::string_view piece) {
  size_t open = piece.find('['), close = piece.find(']');
  if (open == std::string_view::npos || piece.substr(open, close - open).find(':') == std::string_view::npos) {
    return std::optional<Piece>();
  }
  std::string_view front = piece.substr(0, open), rest = piece.substr(close + 1);
  std::string name(piece.substr(open + 1, close - open - 1));
  if (!is_ipv6(name) || !(front.empty() || front.ends_with('@')) || !(rest.empty() || rest.starts_with(':'))) {
    return usage_error("\"{}\" holds no IPv6 address as in [fe80::1]:2", piece.substr(0, kShown));
  }
  bool counted = !rest.empty();
  return std::optional<Piece>({std::string(front) + name, counted ? rest.substr(1) : rest, counted});
}

Result<Piece> split_piece(std::string_view piece) {
  MUSTER_TRY(auto address, split_ipv6(piece));
  if (address) return *address;
  if (is_ipv6(piece)) return Piece{std::string(piece), {}, false};
  size_t colon = piece.find(':');
  if (colon == std::string_view::npos) return Piece{std::string(piece), {}, false};
  return Piece{std::string(piece.substr(0, colon)), piece.substr(colon + 1), true};
}

// A count has colons where GPUs have a type. A type that is a number could be a port, and is taken behind "gpu:" only.
Result<void> check_colons(std::string_view count, std::string_view piece) {
  const size_t colon = count.find(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view shown = piece.substr(0, kShown), type = count.substr(0, colon);
  if (!process::parse_typed_gpus(count))
    return Error{ErrorKind::kUsage, fmt::format("\"{}\" has several colons and is not an IPv6 address", shown),
                 "write n1:4, n1:v100:4 or [fe80::1]:4"};
  if (type.find_first_not_of("0123456789") == std::string_view::npos)
    return Error{ErrorKind::kUsage, fmt::format("\"{}\": {} may be a port or a type of GPU", shown, type),
                 fmt::format("a port belongs into ~/.ssh/config; a type is written gpu:{}", count)};
  return {};
}

Result<std::vector<Host>> parse_piece(std::string_view text, size_t limit) {
  MUSTER_TRY(Piece piece, split_piece(text));
  std::optional<int> workers;
  if (piece.counted) {
    MUSTER_TRY_VOID(check_colons(piece.workers, text));
    MUSTER_TRY(workers, parse_workers(piece.workers, text));
  }
  MUSTER_TRY(std::vector<std::string> names, expand_piece(piece.names, limit));
  std::vector<Host> hosts;
  hosts.reserve(names.size());
  for (std::string& name : names) {
    MUSTER_TRY_VOID(check_host_name(name));
    hosts.push_back({std::move(name), workers});
  }
  return hosts;
}

Result<std::vector<Host>> parse_pieces(std::string_view text, size_t limit) {
  MUSTER_TRY(std::vector<std::string_view> pieces, split_hostlist(text));
  std::vector<Host> all;
  for (std::string_view piece : pieces) {
    if (all.size() >= limit) return usage_error("these are more than {} hosts", limit);
    MUSTER_TRY(std::vector<Host> hosts, parse_piece(piece, limit - all.size()));
    std::move(hosts.begin(), hosts.end(), std::back_inserter(all));
  }
  return all;
}

// Two names that are one machine, whoever logs in there.
std::string machine(const std::string& name) {
  size_t at = name.rfind('@');
  return lower_case(at == std::string::npos ? name : name.substr(at + 1));
}

// The words behind the hosts of a line: "slots=4 max_slots=8". The limit is Open MPI's business.
Result<std::optional<int>> parse_slots(const std::vector<std::string_view>& words) {
  std::optional<int> slots;
  for (std::string_view word : words) {
    if (word.starts_with("slots=")) {
      MUSTER_TRY(slots, parse_workers(word.substr(6), word));
    } else if (!word.starts_with("max_slots=") && !word.starts_with("max-slots=")) {
      return usage_error("\"{}\" is unknown here (a line is: host, host:4, or host slots=4)", word.substr(0, kShown));
    }
  }
  return slots;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  constexpr std::string_view kBlank = " \t\r\v\f";
  for (line = trim(line); !line.empty(); line = trim(line)) {
    size_t end = std::min(line.find_first_of(kBlank), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

// Gathers the hosts of a file in the order in which they first come.
class HostFile {
 public:
  Result<void> add_line(std::string_view line) {
    auto words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) return {};
    MUSTER_TRY(std::vector<Host> hosts, parse_pieces(words.front(), kMaxHosts));
    words.erase(words.begin());
    MUSTER_TRY(std::optional<int> slots, parse_slots(words));
    mentions_ += hosts.size();
    if (mentions_ > kMaxMentions) return usage_error("hosts are named more than {} times", kMaxMentions);
    for (Host& host : hosts) {
      if (slots && host.workers) return usage_error("{} has two numbers of workers", host.name);
      if (slots) host.workers = slots;
      MUSTER_TRY_VOID(add(std::move(host)));
    }
    return {};
  }
  std::vector<Host> take() && { return std::move(hosts_); }

 private:
  // A bare name is one slot, but only beside others: alone it leaves the count to the node.
  Result<void> add(Host host) {
    auto [place, is_new] = places_.emplace(machine(host.name), hosts_.size());
    if (is_new) {
      if (hosts_.size() == kMaxHosts) return usage_error("these are more than {} hosts", kMaxHosts);
      hosts_.push_back(std::move(host));
      return {};
    }
    Host& known = hosts_[place->second];
    int64_t sum = int64_t{known.workers.value_or(1)} + host.workers.value_or(1);
    if (sum > kMaxWorkers) return usage_error("{} has more than {} workers", known.name, kMaxWorkers);
    known.workers = static_cast<int>(sum);
    return {};
  }

  std::vector<Host> hosts_;
  std::unordered_map<std::string, size_t> places_;
  size_t mentions_ = 0;
};

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._-").find(c) != std::string_view::npos;
}

}  // namespace

Result<void> check_host_name(std::string_view name) {
  size_t at = name.rfind('@');
  std::string_view user = at == std::string_view::npos ? "" : name.substr(0, at);
  std::string_view host = name.substr(at == std::string_view::npos ? 0 : at + 1);
  auto in_user = [](char c) { return is_plain(c) || c == '@' || c == '+'; };
  auto in_host = [](char c) { return is_plain(c) || c == ':' || c == '%'; };
  // A name that begins with a dash is an option to ssh.
  bool good = !host.empty() && host.front() != '-' && std::all_of(host.begin(), host.end(), in_host) && at != 0 &&
              !user.starts_with('-') && std::all_of(user.begin(), user.end(), in_user);
  if (good) return {};
  return usage_error("\"{}\" is not a name of a host", name.substr(0, kShown));
}

Result<std::vector<Host>> parse_hosts(std::string_view text) {
  MUSTER_TRY(std::vector<Host> hosts, parse_pieces(text, kMaxHosts));
  std::unordered_set<std::string> machines;
  for (const Host& host : hosts) {
    if (!machines.insert(machine(host.name)).second) {
      return usage_error("{} is named twice; write {}:2 for two workers", host.name, host.name);
    }
  }
  return hosts;
}

Result<std::vector<Host>> parse_hostfile(std::string_view text) {
  HostFile file;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    ++number;
    if (auto added = file.add_line(text.substr(begin, end - begin)); !added) {
      Error error = added.error();
      error.message = fmt::format("line {}: {}", number, error.message);
      return error;
    }
    begin = end + 1;
  }
  auto hosts = std::move(file).take();
  if (hosts.empty()) return Error{ErrorKind::kUsage, "no host is named", "write one a line"};
  return hosts;
}

}  // namespace muster::cluster
