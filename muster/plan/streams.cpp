#include "muster/base/strings.h"
#include "muster/plan/known.h"

namespace muster::plan {
namespace {

using job::Request;

constexpr std::string_view kTorchrunPrefix = "[${role_name}${local_rank}]:";

// torchrun says nothing of it. No error: one command line serves nodes that have different numbers of workers.
void note_missing_ranks(const job::Source& source, const std::set<int>& ranks, int workers, Notes& notes) {
  std::vector<std::string> missing;
  for (int rank : ranks)
    if (rank >= workers) missing.push_back(std::to_string(rank));
  if (missing.empty()) return;
  notes.add(LogLevel::kWarning,
            fmt::format("{}: no worker here has local rank {}; there {} {}, from 0 on", source.option(),
                        join(missing, " or "), workers == 1 ? "is" : "are", workers));
}

// By local rank.
std::map<int, int> masks_of(const job::StreamMasks& asked, int workers) {
  std::map<int, int> masks;
  for (int rank = 0; asked.all && rank < workers; ++rank) masks[rank] = *asked.all;
  for (const auto& [rank, mask] : asked.by_rank)
    if (rank < workers) masks[rank] = mask;
  return masks;
}

void plan_labels(const Request& request, const Position& position, int workers, job::OutputSpec& output) {
  output.prefix_template = request.prefix_template;
  if (!request.ours()) {
    // Lines of many nodes on one console: torchrun's own prefix would not tell whose they are.
    if (position.agent != nullptr) {
      output.label = job::LabelKind::kHostRank;
    } else if (output.prefix_template.empty()) {
      output.prefix_template = kTorchrunPrefix;
    }
    return;
  }
  const job::LabelKind usual = !position.alone ? job::LabelKind::kHostRank
                               : workers > 1   ? job::LabelKind::kRank
                                               : job::LabelKind::kNone;
  output.label = request.label.value_or(usual);
}

}  // namespace

Result<job::OutputSpec> plan_output(const Request& request, const Position& position, int workers, Notes& notes) {
  job::OutputSpec output;
  if (request.env_diff) return output;  // for the launcher alone, as it is
  output.log_dir = request.log_dir;
  // Elsewhere there may be more workers than we know of.
  constexpr int kMany = 4096;
  if (request.ours() && !position.elsewhere) {
    for (const auto* asked : {&request.redirects, &request.tee}) {
      std::set<int> named;
      for (const auto& [rank, mask] : (*asked)->by_rank) named.insert(rank);
      note_missing_ranks(*asked, named, workers, notes);
    }
    if (*request.console_ranks) note_missing_ranks(request.console_ranks, **request.console_ranks, workers, notes);
  }
  const int known = position.elsewhere ? kMany : workers;
  const bool files = !output.log_dir.empty() && output.log_dir != "/dev/null";
  const bool tee_all = request.ours() && files && !request.redirects.given() && !request.tee.given();
  output.redirects = masks_of(*request.redirects, known);
  output.tee = masks_of(tee_all ? job::StreamMasks{3, {}} : *request.tee, known);
  output.console_ranks = *request.console_ranks;
  output.stdout_filters = request.stdout_filters;
  output.stderr_filters = request.stderr_filters;
  if (output.log_dir == "/dev/null" && !(output.stdout_filters.empty() && output.stderr_filters.empty()))
    return Error{ErrorKind::kUsage, "--duplicate-*-filters write files, and --log-dir /dev/null forbids them",
                 "name a directory"};
  plan_labels(request, position, workers, output);
  if (!request.ours()) {
    output.inherit_plain_streams = position.agent == nullptr;
    return output;
  }
  output.progress_rank = *request.progress_rank;
  const int most = position.alone ? workers - 1 : INT32_MAX;
  if (output.progress_rank < 0 || output.progress_rank > most)
    return request.progress_rank.about(job::out_of_range(std::to_string(output.progress_rank), 0, most));
  output.cap = request.output_cap;
  return output;
}

Result<job::StdinSpec> plan_stdin(const Request& request, const Position& position, int workers) {
  using Kind = job::StdinSpec::Kind;
  using Wish = job::StdinWish::Kind;
  const auto& asked = request.stdin_wish;
  const bool wanted = *asked && (*asked)->kind != Wish::kNone;
  if (wanted && script_on_stdin(request))
    return asked.about({ErrorKind::kUsage, "the script itself is read from stdin, so workers cannot read it",
                        "leave it out, or put the script into a file"});
  if (wanted && !position.alone)
    return asked.about({ErrorKind::kUsage, "workers on several nodes cannot read what is typed or piped in here",
                        "leave it out, and let them read a file"});
  const bool one_console = position.from_here || position.agent != nullptr;
  if (!request.ours() && !one_console) return job::StdinSpec{Kind::kInherit, 0};
  if (!wanted) {
    const bool none = *asked || !position.alone || script_on_stdin(request) || workers > 1;
    return job::StdinSpec{none ? Kind::kNone : Kind::kRank, 0};
  }
  if ((*asked)->kind == Wish::kAll) return job::StdinSpec{Kind::kAll, 0};
  const int rank = (*asked)->rank;
  if (rank < 0 || rank >= workers)
    return asked.about({ErrorKind::kUsage, fmt::format("'{}' is not a rank of this job", rank),
                        fmt::format("write none, all, or a rank from 0 to {}", workers - 1)});
  return job::StdinSpec{Kind::kRank, rank};
}

}  // namespace muster::plan
