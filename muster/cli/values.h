#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/result.h"
#include "muster/job/spec.h"
#include "muster/net/address.h"

// Readers of option values. All are pure; an error is one sentence with the way out and does not name the option,
// which the caller knows.
namespace muster::cli {

// What Python's int() and float() accept, written canonically ("+1_000" -> "1000").
std::optional<std::string> python_int(std::string_view text);
std::optional<double> python_float(std::string_view text);
// As Python's repr() shows a text.
std::string python_repr(std::string_view text);

// "a,b,,c" -> "a", "b,c"
std::vector<std::string> split_list(std::string_view text);

struct NodeRange {
  int min = 1;
  int max = 1;
};
// "N" or "MIN:MAX", 0 < MIN <= MAX.
Result<NodeRange> parse_nodes(std::string_view text);

// --nproc-per-node: a number, also as Slurm writes that of GPUs ("v100:4"), or what to count.
enum class Countable { kCpu, kGpu, kXpu, kAuto };
using WorkerCount = std::variant<int, Countable>;
Result<WorkerCount> parse_worker_count(std::string_view text);

// "key=value,key=value"; a key without a value is an error.
Result<std::map<std::string, std::string>> parse_rendezvous_conf(std::string_view text);
// The keys c10d knows have values it can use: whole seconds, yes or no, tcp or file. It ignores other keys.
// A program and its arguments, as rsync reads its -e: blanks separate, quotes of both kinds hold together, a doubled
// quote inside of such quotes stands for itself. At least one word.
Result<std::vector<std::string>> split_command(std::string_view text);

// Without a pair of quotes around the whole.
std::string_view without_quotes(std::string_view text);
Result<void> check_rendezvous_conf(const std::map<std::string, std::string>& conf);

// -r and -t for `workers` local ranks, and for any other that is named. torchrun's pattern knows ranks of one digit
// only.
enum class RankSyntax { kTorchrun, kAny };
Result<std::map<int, int>> parse_stream_masks(std::string_view text, int workers, RankSyntax syntax);

// "0,2"
Result<std::set<int>> parse_ranks(std::string_view text);

// "SIGTERM,USR1". Names that are none come back in `unknown`.
struct SignalList {
  std::vector<int> signals;
  std::vector<std::string> unknown;
};
SignalList parse_signals(std::string_view text);

// "1GiB", "512M", "64k", "4096"; powers of 1024 whatever the spelling.
Result<uint64_t> parse_size(std::string_view text);

// torchrun's reading of an endpoint; no port: `default_port`.
struct Endpoint {
  std::string host;
  int port = -1;
  bool chosen = true;  // by the user; false: our default, which may be replaced where it is taken
};
Result<Endpoint> parse_endpoint(std::string_view text, int default_port);

// "A-B", or one port.
Result<job::PortRange> parse_port_range(std::string_view text);

// What is_host of --rdzv-conf says; check_rendezvous_conf() has accepted it.
bool says_yes(std::string_view answer);

// A --log-line-prefix-template uses only names that mean something.
Result<void> check_prefix_template(std::string_view text);

}  // namespace muster::cli
