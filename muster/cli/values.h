#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/result.h"
#include "muster/job/request.h"

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

// "N" or "MIN:MAX", 0 < MIN <= MAX.
Result<job::NodeRange> parse_nodes(std::string_view text);

// --nproc-per-node: a number, also as Slurm writes that of GPUs ("v100:4"), or what to count.
Result<job::WorkerCount> parse_worker_count(std::string_view text);

// "key=value,key=value"; a key without a value is an error.
Result<std::map<std::string, std::string>> parse_rendezvous_conf(std::string_view text);
// The keys c10d knows have values it can use: whole seconds, yes or no, tcp or file. It ignores other keys.
Result<void> check_rendezvous_conf(const std::map<std::string, std::string>& conf);

// Without a pair of quotes around the whole.
std::string_view without_quotes(std::string_view text);

// -r and -t. torchrun's pattern knows ranks of one digit only.
enum class RankSyntax { kTorchrun, kAny };
Result<job::StreamMasks> parse_stream_masks(std::string_view text, RankSyntax syntax);

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

// "A-B", or one port.
Result<job::PortRange> parse_port_range(std::string_view text);

// What is_host of --rdzv-conf says; check_rendezvous_conf() has accepted it.
bool says_yes(std::string_view answer);

// A --log-line-prefix-template uses only names that mean something.
Result<void> check_prefix_template(std::string_view text);

}  // namespace muster::cli
