#include "muster/cli/suggestions.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/cli/verbs.h"

namespace muster::cli {
namespace {

template <typename Distance>
const Option* nearest(Verb verb, size_t allowed, const Distance& distance_to) {
  const Option* best = nullptr;
  size_t best_distance = allowed + 1;
  for (const Option& option : options()) {
    if (!option.in(verb)) continue;
    if (size_t distance = distance_to(option); distance < best_distance) {
      best = &option;
      best_distance = distance;
    }
  }
  return best;
}

// The option whose whole name was mistyped.
const Option* nearest_by_letters(Verb verb, std::string_view name) {
  return nearest(verb, slips_allowed(name.size()),
                 [&](const Option& option) { return edit_distance(name, option.name); });
}

// The option whose name was mistyped and shortened. The first letter must be right.
const Option* nearest_by_beginning(Verb verb, std::string_view name) {
  const size_t allowed = slips_allowed(name.size());
  return nearest(verb, allowed, [&](const Option& option) {
    if (option.name[0] != name[0] || name.size() >= option.name.size()) return allowed + 1;
    return edit_distance(name, option.name.substr(0, name.size()));
  });
}

// "restarts" and "restart", "nprocs" and "nproc".
bool same_word(std::string_view a, std::string_view b) {
  if (a.ends_with('s')) a.remove_suffix(1);
  if (b.ends_with('s')) b.remove_suffix(1);
  return a == b;
}

// Whether every word of `typed` is a word of `name`; words of one or two letters do not count.
bool has_words_of(std::string_view name, std::string_view typed) {
  constexpr size_t kShortest = 3;
  const auto words = split(name, '-');
  bool any = false;
  for (std::string_view mine : split(typed, '-')) {
    if (mine.size() < kShortest) continue;
    if (std::none_of(words.begin(), words.end(), [&](std::string_view word) { return same_word(word, mine); }))
      return false;
    any = true;
  }
  return any;
}

std::vector<const Option*> with_words_of(Verb verb, std::string_view typed) {
  std::vector<const Option*> found;
  for (const Option& option : options())
    if (option.in(verb) && has_words_of(option.name, typed)) found.push_back(&option);
  return found;
}

using Names = std::initializer_list<std::string_view>;

bool is_one_of(std::string_view word, Names names) { return std::ranges::find(names, word) != names.end(); }

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
      {"-H", Opt::kHosts},
      {"-w", Opt::kHosts},
      {"--nodelist", Opt::kHosts},
      {"--machinefile", Opt::kHostfile},
      {"--name", Opt::kRdzvId},
      {"--job-name", Opt::kRdzvId},
      {"--job-id", Opt::kRdzvId},
      {"--run-id", Opt::kRdzvId},
      {"--retries", Opt::kMaxRestarts},
      {"--max-retries", Opt::kMaxRestarts},
      {"--image", Opt::kContainer},
      {"--stdout", Opt::kLogDir},
      {"--stderr", Opt::kLogDir},
      {"-x", Opt::kEnv},
  };
  std::string typed(word);
  std::replace(typed.begin(), typed.end(), '_', '-');
  if (!typed.starts_with("--")) typed.resize(typed.find_last_not_of("0123456789") + 1);
  const auto* known = std::ranges::find(kNames, typed, &std::pair<std::string_view, Opt>::first);
  return known == std::end(kNames) ? std::nullopt : std::optional(known->second);
}

std::vector<const Option*> resembled_options(Verb verb, std::string_view name) {
  constexpr size_t kMost = 3;  // more would not help
  if (const Option* best = nearest_by_letters(verb, name)) return {best};
  if (auto found = with_words_of(verb, name); !found.empty() && found.size() <= kMost) return found;
  if (const Option* best = nearest_by_beginning(verb, name)) return {best};
  return {};
}

bool belongs_to_launchers(Opt id) {
  constexpr Opt kOfLaunchers[] = {Opt::kNprocPerNode, Opt::kNnodes,   Opt::kStandalone, Opt::kMaxRestarts,
                                  Opt::kHosts,        Opt::kHostfile, Opt::kLocalNodes};
  return std::ranges::find(kOfLaunchers, id) != std::end(kOfLaunchers);
}

std::string hint_for_verb(std::string_view word, std::string_view command) {
  const VerbInfo* verb = nearest_verb(word);
  if (is_one_of(word, {"start", "exec", "submit"})) verb = find_verb("run");
  if (is_one_of(word, {"ps", "ls", "list", "jobs", "top"})) verb = find_verb("status");
  if (verb != nullptr) return fmt::format("did you mean '{} {}'?", command, verb->name);
  if (is_one_of(word, {"stop", "kill", "cancel", "end"}))
    return "to stop a job press Ctrl-C, or send SIGTERM to the muster that started it";
  return "muster --help lists the verbs";
}

}  // namespace muster::cli
