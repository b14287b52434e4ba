#include "muster/base/strings.h"
#include "muster/cli/job_planner.h"
#include "muster/cluster/adapter.h"

namespace muster::cli {
namespace {

constexpr std::string_view kTorchrunPrefix = "[${role_name}${local_rank}]:";

}  // namespace

Result<void> Planner::plan_output() {
  job::OutputSpec& output = job_.output;
  if (plan_.env_diff) return {};  // for the launcher alone, as it is
  output.log_dir = text(Opt::kLogDir);
  job_.scheduler_job = cluster::scheduler_job(facts_.getenv);
  const RankSyntax syntax = ours_ ? RankSyntax::kAny : RankSyntax::kTorchrun;
  // Elsewhere there may be more workers than we know of.
  constexpr int kMany = 4096;
  const int workers = elsewhere() ? kMany : job_.workers;
  for (auto [id, masks] : {std::pair(Opt::kRedirects, &output.redirects), std::pair(Opt::kTee, &output.tee)}) {
    auto parsed = parse_stream_masks(text(id), workers, syntax);
    if (!parsed) return about(id, parsed.error());
    *masks = *std::move(parsed);
    std::set<int> named;
    for (const auto& [rank, mask] : *masks) named.insert(rank);
    note_missing_ranks(id, named);
    std::erase_if(*masks, [workers](const auto& item) { return item.first >= workers; });
  }
  if (ours_ && !output.log_dir.empty() && output.log_dir != "/dev/null" && !parsed_.given(Opt::kRedirects) &&
      !parsed_.given(Opt::kTee))
    output.tee = *parse_stream_masks("3", workers, syntax);
  if (!text(Opt::kLocalRanksFilter).empty()) {
    auto ranks = parse_ranks(text(Opt::kLocalRanksFilter));
    if (!ranks) return about(Opt::kLocalRanksFilter, ranks.error());
    output.console_ranks = *std::move(ranks);
    note_missing_ranks(Opt::kLocalRanksFilter, *output.console_ranks);
  }
  output.stdout_filters = parsed_.list(Opt::kDuplicateStdoutFilters);
  output.stderr_filters = parsed_.list(Opt::kDuplicateStderrFilters);
  if (output.log_dir == "/dev/null" && !(output.stdout_filters.empty() && output.stderr_filters.empty()))
    return Error{ErrorKind::kUsage, "--duplicate-*-filters write files, and --log-dir /dev/null forbids them",
                 "name a directory"};
  MUSTER_TRY_VOID(plan_labels());
  if (!ours_) {
    output.inherit_plain_streams = !assignment_;
    return {};
  }
  MUSTER_TRY(int64_t rank, integer(Opt::kProgressRank, 0, alone() ? job_.workers - 1 : INT32_MAX));
  output.progress_rank = static_cast<int>(rank);
  auto cap = parse_size(text(Opt::kOutputCap));
  if (!cap) return about(Opt::kOutputCap, cap.error());
  output.cap = *cap;
  return {};
}

// torchrun says nothing of it. No error: one command line serves nodes that have different numbers of workers.
void Planner::note_missing_ranks(Opt id, const std::set<int>& ranks) {
  if (!ours_ || elsewhere()) return;
  std::vector<std::string> missing;
  for (int rank : ranks)
    if (rank >= job_.workers) missing.push_back(std::to_string(rank));
  if (missing.empty()) return;
  note(LogLevel::kWarning,
       fmt::format("{}: no worker here has local rank {}; there {} {}, from 0 on", dashed(option(id)),
                   join(missing, " or "), job_.workers == 1 ? "is" : "are", job_.workers));
}

Result<void> Planner::plan_labels() {
  job::OutputSpec& output = job_.output;
  output.prefix_template = text(Opt::kLogLinePrefixTemplate);
  if (output.prefix_template.empty())
    output.prefix_template = facts_.getenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE").value_or("");
  if (!ours_) {
    // Lines of many nodes on one console: torchrun's own prefix would not tell whose they are.
    if (assignment_) {
      output.label = job::LabelKind::kHostRank;
    } else if (output.prefix_template.empty()) {
      output.prefix_template = kTorchrunPrefix;
    }
    return {};
  }
  if (auto ok = check_prefix_template(output.prefix_template); !ok)
    return about(Opt::kLogLinePrefixTemplate, ok.error());
  const std::string& label = text(Opt::kLabel);
  output.label = label == "host:rank" || (label.empty() && !alone())      ? job::LabelKind::kHostRank
                 : label == "rank" || (label.empty() && job_.workers > 1) ? job::LabelKind::kRank
                                                                          : job::LabelKind::kNone;
  // A label that was asked for beats a template from the environment.
  if (parsed_.has(Opt::kLabel) && !parsed_.given(Opt::kLogLinePrefixTemplate)) output.prefix_template.clear();
  return {};
}

Result<void> Planner::plan_stdin() {
  using Kind = job::StdinSpec::Kind;
  const std::string& who = text(Opt::kStdin);
  if (script_on_stdin() && !who.empty() && who != "none")
    return about(Opt::kStdin, {ErrorKind::kUsage, "the script itself is read from stdin, so workers cannot read it",
                               "leave it out, or put the script into a file"});
  if (!alone() && !who.empty() && who != "none")
    return about(Opt::kStdin, {ErrorKind::kUsage, "workers on several nodes cannot read what is typed or piped in here",
                               "leave it out, and let them read a file"});
  const bool one_console = fan_out() != nullptr || assignment_;
  if (!ours_ && !one_console) {
    job_.stdin_spec = {Kind::kInherit, 0};
  } else if (!alone() || script_on_stdin() || who == "none" || (who.empty() && job_.workers > 1)) {
    job_.stdin_spec = {Kind::kNone, 0};
  } else if (who == "all") {
    job_.stdin_spec = {Kind::kAll, 0};
  } else {
    auto rank = who.empty() ? std::optional<int64_t>(0) : parse_int(who);
    if (!rank || *rank < 0 || *rank >= job_.workers)
      return about(Opt::kStdin, {ErrorKind::kUsage, fmt::format("'{}' is not a rank of this job", who),
                                 fmt::format("write none, all, or a rank from 0 to {}", job_.workers - 1)});
    job_.stdin_spec = {Kind::kRank, static_cast<int>(*rank)};
  }
  return {};
}

}  // namespace muster::cli
