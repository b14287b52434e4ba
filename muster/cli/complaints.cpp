#include "muster/cli/complaints.h"

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/cli/values.h"
#include "muster/cli/verbs.h"

namespace muster::cli {
namespace {

// "argument --a-b/--a_b: " in front of argparse's complaints.
Error complaint(const Option& option, std::string_view text) {
  return usage_error("argument {}: {}", muster::join(spellings(option), "/"), text);
}

std::string where(const Option& option, Source source) {
  return source == Source::kEnvironment ? pet_variable(option) : dashed(option);
}

// A slip of the finger.
const Option* nearest_by_letters(Verb verb, std::string_view name) {
  const Option* best = nullptr;
  size_t best_distance = std::max<size_t>(3, name.size() / 3 + 1);
  for (const Option& option : options()) {
    if (!option.in(verb)) continue;
    if (size_t distance = edit_distance(name, option.name); distance < best_distance) {
      best = &option;
      best_distance = distance;
    }
  }
  return best;
}

// A slip in an abbreviation. Two letters swapped are much of a short word: the first one has to be right.
const Option* nearest_by_beginning(Verb verb, std::string_view name) {
  if (name.size() < 4) return nullptr;
  const Option* best = nullptr;
  size_t best_distance = 3;
  for (const Option& option : options()) {
    if (!option.in(verb) || option.name[0] != name[0]) continue;
    if (size_t distance = edit_distance(name, option.name.substr(0, name.size())); distance < best_distance) {
      best = &option;
      best_distance = distance;
    }
  }
  return best;
}

// Letters in the words that two names share; words that begin alike count with what they share.
size_t common_words(std::string_view typed, std::string_view name) {
  constexpr size_t kAlike = 4;
  size_t letters = 0;
  for (std::string_view mine : split(typed, '-')) {
    size_t most = 0;
    for (std::string_view theirs : split(name, '-')) {
      size_t same = 0;
      while (same < std::min(mine.size(), theirs.size()) && mine[same] == theirs[same]) ++same;
      if (same >= kAlike || (same > 2 && mine == theirs)) most = std::max(most, same);
    }
    letters += most;
  }
  return letters;
}

// Another launcher's name for it: --nprocs, --restarts, --max-retries.
const Option* nearest_by_words(Verb verb, std::string_view name) {
  const Option* best = nullptr;
  size_t best_length = 0;
  for (const Option& option : options()) {
    if (!option.in(verb)) continue;
    if (size_t length = common_words(name, option.name); length > best_length) {
      best = &option;
      best_length = length;
    }
  }
  return best;
}

}  // namespace

std::optional<Opt> known_elsewhere(std::string_view word) {
  constexpr std::pair<std::string_view, Opt> kNames[] = {
      {"-n", Opt::kNprocPerNode},
      {"-np", Opt::kNprocPerNode},
      {"--ntasks", Opt::kNprocPerNode},
      {"--ntasks-per-node", Opt::kNprocPerNode},
      {"--num-processes", Opt::kNprocPerNode},
      {"--num-gpus", Opt::kNprocPerNode},
      {"--gpus", Opt::kNprocPerNode},
      {"--gpus-per-node", Opt::kNprocPerNode},
      {"--workers", Opt::kNprocPerNode},
      {"-N", Opt::kNnodes},
      {"--num-machines", Opt::kNnodes},
      {"--num-nodes", Opt::kNnodes},
      {"--machine-rank", Opt::kNodeRank},
      {"--main-process-ip", Opt::kMasterAddr},
      {"--port", Opt::kMasterPort},
  };
  std::string typed(word);
  std::replace(typed.begin(), typed.end(), '_', '-');
  if (!typed.starts_with("--")) typed.resize(typed.find_last_not_of("0123456789") + 1);
  const auto* known = std::ranges::find(kNames, typed, &std::pair<std::string_view, Opt>::first);
  return known == std::end(kNames) ? std::nullopt : std::optional(known->second);
}

Error Complaints::ambiguous(std::string_view word, const std::vector<std::string>& could_be) const {
  const std::string names = muster::join(could_be, ", ");
  if (dialect_ == Dialect::kArgparse) return usage_error("ambiguous option: {} could match {}", word, names);
  return {ErrorKind::kUsage, fmt::format("option '{}' is ambiguous", word), fmt::format("it could be {}", names)};
}

Error Complaints::not_a_number(const Option& option, std::string_view type, const std::string& value,
                               Source source) const {
  if (dialect_ == Dialect::kArgparse)
    return complaint(option, fmt::format("invalid {} value: {}", type, python_repr(value)));
  const std::string_view number = type == "int" ? "whole number" : "number";
  return {ErrorKind::kUsage, fmt::format("{}: '{}' is no {}", where(option, source), value, number),
          source == Source::kEnvironment ? fmt::format("set it to a {}, or unset it", number)
                                         : fmt::format("write {} {}", dashed(option), option.metavar)};
}

Error Complaints::no_such_choice(const Option& option, const std::string& value, Source source) const {
  auto choices = split(option.choices, '|');
  std::vector<std::string> shown;
  shown.reserve(choices.size());
  for (std::string_view choice : choices)
    shown.push_back(dialect_ == Dialect::kArgparse ? python_repr(choice) : std::string(choice));
  std::string list = muster::join(shown, ", ");
  if (dialect_ == Dialect::kArgparse)
    return complaint(option, fmt::format("invalid choice: {} (choose from {})", python_repr(value), list));
  return {ErrorKind::kUsage, fmt::format("{}: '{}' is not supported", where(option, source), value),
          fmt::format("choose {}", list)};
}

Error Complaints::missing_value(const Option& option) const {
  if (dialect_ == Dialect::kArgparse) return complaint(option, "expected one argument");
  return {ErrorKind::kUsage, fmt::format("option '{}' needs a value", dashed(option)),
          fmt::format("write {} {}", dashed(option), option.metavar)};
}

Error Complaints::takes_no_value(const Option& option, const std::string& value) const {
  if (dialect_ == Dialect::kArgparse) return complaint(option, "ignored explicit argument " + python_repr(value));
  return {ErrorKind::kUsage, fmt::format("option '{}' takes no value", dashed(option)),
          fmt::format("leave '{}' out", value)};
}

Error Complaints::no_such_word(const std::string& word) const {
  const VerbInfo& verb = info(verb_);
  const auto nearest = nearest_word(word, split(verb.choices, '|'));
  const bool slip = nearest && edit_distance(word, *nearest) == 1;  // tcsh is no slip for bash
  return {
      ErrorKind::kUsage, fmt::format("'{}' is not supported", word),
      slip ? fmt::format("did you mean 'muster {} {}'?", verb.name, *nearest) : fmt::format("choose {}", verb.choices)};
}

Error Complaints::unknown_option(const std::string& word, const std::vector<std::string>& arguments) const {
  const std::string typed = word.substr(0, word.find('='));
  Error error = usage_error("unknown option '{}'", typed);
  std::string dashes = typed;
  std::replace(dashes.begin(), dashes.end(), '_', '-');
  const std::string name = dashes.substr(std::min(dashes.find_first_not_of('-'), dashes.size()));
  if (name == "use-env") {  // of torch.distributed.launch
    error.hint = "leave it out: workers have LOCAL_RANK, and get no --local-rank";
    return error;
  }
  if (auto meant = known_elsewhere(typed); meant && option(*meant).in(verb_)) {
    error.hint = fmt::format("write {} {}", dashed(option(*meant)), option(*meant).metavar);
    return error;
  }
  const Option* best = nearest_by_letters(verb_, name);
  if (best == nullptr) best = nearest_by_words(verb_, name);
  if (best == nullptr) best = nearest_by_beginning(verb_, name);
  const std::string all = fmt::format("'muster {} --help' lists them all", info(verb_).name);
  const auto script =
      std::find_if(arguments.begin(), arguments.end(), [](const auto& w) { return w.ends_with(".py"); });
  error.hint = best != nullptr             ? fmt::format("did you mean '{}'?", dashed(*best))
               : script != arguments.end() ? fmt::format("if it is one of {0}, write it behind {0}; {1}", *script, all)
                                           : all;
  return error;
}

}  // namespace muster::cli
