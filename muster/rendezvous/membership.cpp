#include "muster/rendezvous/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <set>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/rendezvous/words.h"

namespace muster::rendezvous {
namespace {

using job::Ending;
using Kind = Decision::Kind;

// --- words ----------------------------------------------------------------------------------------------------------

std::string nodes_text(size_t count) { return count == 1 ? "1 node" : fmt::format("{} nodes", count); }

// "n1, n2, n3, n4 and 12 more"; only those that are shown are asked for their text.
template <typename Things, typename Text>
std::string some_of(const Things& things, std::string_view separator, Text text) {
  constexpr size_t kShown = 4;
  size_t shown = things.size() <= kShown + 1 ? things.size() : kShown;
  std::vector<std::string> texts;
  for (size_t i = 0; i < shown; ++i) texts.push_back(text(things[i]));
  std::string all = join(texts, separator);
  return shown == things.size() ? all : fmt::format("{} and {} more", all, things.size() - shown);
}

std::string sentences(const std::vector<Loss>& all) { return some_of(all, "; ", loss_text); }

// --- what one walk over the nodes tells -----------------------------------------------------------------------------

struct Survey {
  const Node* quietest = nullptr;  // heard longest ago
  const Node* mutest = nullptr;    // has not answered for longest
  size_t done = 0;                 // members that have reported their end with 0
  size_t outsiders = 0;            // not in this round
  const Node* newest_outsider = nullptr;
  std::vector<const Node*> unreaped;  // its workers may still run
};

Survey survey(const State& state) {
  Survey seen;
  for (const auto& [id, node] : state.nodes) {
    if (seen.quietest == nullptr || node.heard < seen.quietest->heard) seen.quietest = &node;
    if (node.unanswered && (seen.mutest == nullptr || *node.unanswered < *seen.mutest->unanswered)) seen.mutest = &node;
    if (node.part == Part::kDone) ++seen.done;
    bool unreaped = node.part == Part::kRuns || node.part == Part::kStops;
    if (unreaped && state.round_state == RoundState::kStopping) seen.unreaped.push_back(&node);
    if (state.round >= 0 && node.last_round == state.round) continue;
    ++seen.outsiders;
    seen.newest_outsider = &node;
  }
  return seen;
}

// --- kinds of decisions ---------------------------------------------------------------------------------------------

Decision wait(Waiting waiting, std::string reason, std::optional<TimePoint> wake_at = std::nullopt) {
  Decision decision;
  decision.waiting = waiting;
  decision.reason = std::move(reason);
  decision.wake_at = wake_at;
  return decision;
}

// People are told how much time is left.
Decision wait_until(TimePoint until, Waiting waiting, std::string reason) {
  Decision decision = wait(waiting, std::move(reason), until);
  decision.until = until;
  return decision;
}

Decision drop(const Node& node, Loss::Cause cause, Duration lasting = {}) {
  Decision decision;
  decision.kind = Kind::kDropNode;
  decision.node = node.id;
  decision.loss = {.cause = cause, .host = node.join.host, .lasting = lasting};
  decision.reason = loss_text(decision.loss);
  return decision;
}

Decision stop(std::string reason, bool counts_as_restart, int signal = SIGTERM) {
  Decision decision;
  decision.kind = Kind::kStopRound;
  decision.reason = std::move(reason);
  decision.counts_as_restart = counts_as_restart;
  decision.signal = signal;
  return decision;
}

Decision end(Ending ending, int exit_code, std::string reason) {
  Decision decision;
  decision.kind = Kind::kEndJob;
  decision.ending = ending;
  decision.exit_code = exit_code;
  decision.reason = std::move(reason);
  return decision;
}

// --- a round that goes on -------------------------------------------------------------------------------------------

std::optional<Decision> grow(TimePoint now, const State& state, const MembershipOptions& options, const Survey& seen) {
  bool room = state.members.size() < static_cast<size_t>(options.max_nodes);
  // A round in which somebody is done will not be long, and what is done would be done again.
  bool near_its_end = seen.done + state.finished.size() > 0;
  if (options.grow != Grow::kNow || options.fixed_ranks || !room || near_its_end || seen.outsiders == 0)
    return std::nullopt;
  TimePoint settled = state.last_join.value_or(now) + kGrowDelay;
  if (now < settled)
    return wait(Waiting::kNewcomers, fmt::format("{} has joined", seen.newest_outsider->join.host), settled);
  size_t size = std::min(state.nodes.size(), most_nodes(state, options));
  return stop(fmt::format("{} has joined: {} instead of {}", seen.newest_outsider->join.host, nodes_text(size),
                          state.members.size()),
              false);
}

Decision during_round(TimePoint now, const State& state, const MembershipOptions& options, const Survey& seen) {
  bool running = state.round_state == RoundState::kRunning;
  if (running && seen.done + state.finished.size() == state.members.size())
    return end(Ending::kSucceeded, 0,
               fmt::format("every worker on {} has ended with 0", nodes_text(state.members.size())));
  bool failed = state.failed_on && state.lost.empty();
  if (state.stop_signal) return stop(signal_reason(state), failed, *state.stop_signal);
  if (!state.lost.empty()) return stop(sentences(state.lost), false);
  if (failed) return stop(fmt::format("a worker on {} has failed", *state.failed_on), true);
  if (!running)
    return wait(Waiting::kStore, fmt::format("round {} opens on {}", state.round, nodes_text(state.members.size())));
  if (auto grown = grow(now, state, options, seen)) return *grown;
  std::string spares = seen.outsiders == 0 ? "" : fmt::format("; {} not in it", nodes_text(seen.outsiders));
  return wait(Waiting::kRound,
              fmt::format("round {} runs on {}{}", state.round, nodes_text(state.members.size()), spares));
}

// --- after a round --------------------------------------------------------------------------------------------------

const Ghost* last_ghost(TimePoint now, const State& state) {
  auto last = std::ranges::max_element(state.ghosts, {}, &Ghost::safe_at);
  return last == state.ghosts.end() || last->safe_at <= now ? nullptr : &*last;
}

bool is_crash_loop(const State& state, const MembershipOptions& options) {
  if (options.crash_loop <= 0) return false;
  int quick = 0;
  for (auto failure = state.failures.rbegin(); failure != state.failures.rend(); ++failure, ++quick)
    if (failure->after > options.crash_loop_time) break;
  return quick >= options.crash_loop;
}

// Whoever killed a worker (a scheduler, the kernel) may be about to kill all of its node, which would be a lost node.
bool may_lose_its_node(TimePoint now, const State& state, const MembershipOptions& options) {
  return options.lease > Duration::zero() && state.failure->exit_code == kKilled &&
         now < state.stopped_at + kNodeFollowsWorker;
}

// Of a round that failed: how to go on, unless it is a restart.
std::optional<Decision> judge(TimePoint now, const State& state, const MembershipOptions& options) {
  if (!state.counts_as_restart) return std::nullopt;
  if (!state.failure) {
    Decision decision;
    decision.kind = Kind::kJudge;
    decision.reason = state.stop_reason;
    return decision;
  }
  const Failure& failure = *state.failure;
  auto failed = [&](Ending ending, const std::string& why) {
    return end(ending, failure.exit_code, why.empty() ? failure.text : failure.text + "; " + why);
  };
  if (!failure.can_restart) return failed(Ending::kWorkerFailed, "");
  if (state.restarts >= options.max_restarts && may_lose_its_node(now, state, options))
    return wait(Waiting::kNodeOfWorker, failure.text + "; its node may follow", state.stopped_at + kNodeFollowsWorker);
  if (options.max_restarts == 0) return failed(Ending::kWorkerFailed, "no restarts were asked for (--max-restarts)");
  if (state.restarts >= options.max_restarts)
    return failed(Ending::kWorkerFailed, fmt::format("all {} restarts are used", options.max_restarts));
  if (is_crash_loop(state, options))
    return failed(Ending::kCrashLoop,
                  fmt::format("it failed in this way within {} of its start {} times in a row (--crash-loop)",
                              elapsed_text(options.crash_loop_time), options.crash_loop));
  return std::nullopt;
}

// --- making up a round ----------------------------------------------------------------------------------------------

std::string host_name(const MembershipOptions& options, int position) {
  auto index = static_cast<size_t>(position);
  return index < options.expected_hosts.size() ? options.expected_hosts[index] : fmt::format("host {}", position);
}

std::string awaited_text(const MembershipOptions& options, const ExpectedHosts& hosts) {
  if (hosts.awaited.empty()) return "more";
  return some_of(hosts.awaited, ", ", [&](int position) { return host_name(options, position); });
}

// "n3, n4: connection refused; n5: given up"
std::string hopeless_text(const State& state, const MembershipOptions& options, const ExpectedHosts& hosts) {
  std::vector<std::pair<std::string, std::vector<int>>> causes;  // in the order of their first hosts
  for (int position : hosts.hopeless) {
    const std::string why = state.hopeless.at(position).why.text();
    auto known = std::ranges::find(causes, why, &decltype(causes)::value_type::first);
    if (known == causes.end()) known = causes.insert(known, {why, {}});
    known->second.push_back(position);
  }
  return some_of(causes, "; ", [&](const auto& cause) {
    std::string names = some_of(cause.second, ", ", [&](int position) { return host_name(options, position); });
    return names + ": " + (cause.first.empty() ? "given up" : cause.first);
  });
}

// How many there are at best.
size_t best_count(const State& state, const MembershipOptions& options) {
  size_t needed = needed_nodes(options), most = most_nodes(state, options);
  return options.expected > 0 ? std::min(most, std::max(needed, static_cast<size_t>(options.expected))) : most;
}

// "2 of 4 nodes", "1 of 4 nodes, 2 needed"
std::string count_text(size_t count, const State& state, const MembershipOptions& options) {
  size_t needed = needed_nodes(options), most = best_count(state, options);
  std::string text = fmt::format("{} of {}", count, nodes_text(most));
  return count < needed && needed < most ? fmt::format("{}, {} needed", text, needed) : text;
}

// "only 1 of 4 nodes can join, 2 are needed"
std::string too_few_text(size_t count, const State& state, const MembershipOptions& options) {
  size_t needed = needed_nodes(options), most = best_count(state, options);
  std::string text = count == 0 ? "no node can join" : fmt::format("only {} of {} can join", count, nodes_text(most));
  return needed < most ? fmt::format("{}, {} {} needed", text, needed, needed == 1 ? "is" : "are") : text;
}

Decision open(const State& state, const MembershipOptions& options, const std::string& why) {
  Decision decision;
  decision.kind = Kind::kOpenRound;
  decision.members = choose_members(state, options);
  std::string with = fmt::format("round {} with {}", state.round + 1, nodes_text(decision.members.size()));
  if (state.counts_as_restart)
    decision.reason = fmt::format("{}: restart {} of {}", with, state.restarts + 1, options.max_restarts);
  else
    decision.reason = fmt::format("{}: {}", with, state.round < 0 ? why : state.stop_reason);
  return decision;
}

// Where nobody knows the hosts: who has come, whom that leaves, and what to do about it.
void tell_of_unnamed(const State& state, const MembershipOptions& options, std::vector<std::string>& parts) {
  std::vector<const Node*> here;
  std::set<int> ranks;
  for (const auto& [id, node] : state.nodes) {
    here.push_back(&node);
    ranks.insert(node.join.rank.value_or(-1));
  }
  if (!here.empty())
    parts.push_back(some_of(here, ", ", [](const Node* node) { return node->join.host; }) +
                    (here.size() == 1 ? " is there" : " are there"));
  std::vector<int> missing;
  for (int rank = 0; options.fixed_ranks && rank < options.max_nodes; ++rank)
    if (!ranks.contains(rank)) missing.push_back(rank);
  if (!missing.empty())
    parts.push_back("no word of node rank " + some_of(missing, ", ", [](int rank) { return std::to_string(rank); }));
  if (!options.way_in.empty()) parts.push_back(options.way_in + ", or give them longer with --join-timeout");
}

Decision end_with_too_few(const State& state, const MembershipOptions& options, const ExpectedHosts& hosts,
                          std::string how_few) {
  std::vector<std::string> parts = {std::move(how_few)};
  if (!state.gone.empty()) parts.push_back(sentences(state.gone));
  if (!hosts.awaited.empty() && state.round < 0) parts.push_back("no word of " + awaited_text(options, hosts));
  if (options.expected == 0 && state.round < 0) tell_of_unnamed(state, options, parts);
  if (!hosts.hopeless.empty()) parts.push_back(hopeless_text(state, options, hosts));
  int exit_code = kMusterFailed;
  for (int position : hosts.hopeless)
    if (exit_code == kMusterFailed) exit_code = muster::exit_code(state.hopeless.at(position).why);
  return end(state.round < 0 ? Ending::kJoinTimeout : Ending::kNodeLost, exit_code, join(parts, "; "));
}

TimePoint first_given_up(const State& state, TimePoint now) {
  for (const auto& [position, hopeless] : state.hopeless) now = std::min(now, hopeless.since);
  return now;
}

Decision with_too_few(TimePoint now, const State& state, const MembershipOptions& options, const ExpectedHosts& hosts) {
  TimePoint deadline = state.began + options.join_timeout;
  if (now >= deadline)
    return end_with_too_few(
        state, options, hosts,
        fmt::format("{} after {}", count_text(state.nodes.size(), state, options), elapsed_text(now - state.began)));
  size_t at_best = state.nodes.size() + hosts.awaited.size();
  if (options.expected > 0 && at_best < needed_nodes(options)) {
    TimePoint settled = first_given_up(state, now) + kOthersFollow;
    if (!hosts.awaited.empty() && now < settled)
      return wait(Waiting::kOtherHosts, too_few_text(at_best, state, options), settled);
    return end_with_too_few(state, options, {.here = hosts.here, .awaited = {}, .hopeless = hosts.hopeless},
                            too_few_text(at_best, state, options));
  }
  const auto have_joined = static_cast<size_t>(state.next_node - 1), lives = static_cast<size_t>(options.lives);
  if (lives > 0 && state.nodes.size() + lives < needed_nodes(options) + have_joined)
    return end_with_too_few(
        state, options, hosts,
        fmt::format("{}, and no other will be started", count_text(state.nodes.size(), state, options)));
  return wait_until(
      deadline, Waiting::kNodes,
      fmt::format("{}; waiting for {}", count_text(hosts.here, state, options), awaited_text(options, hosts)));
}

Decision with_enough(TimePoint now, const State& state, const MembershipOptions& options, const ExpectedHosts& hosts) {
  TimePoint deadline = state.began + options.join_timeout;
  bool known = options.expected > 0, full = state.nodes.size() >= most_nodes(state, options);
  if (known && hosts.awaited.empty())
    return open(state, options, hosts.hopeless.empty() || full ? "all are there" : "no other node can join");
  // The first round of known hosts has no last call: their launcher says when it gives one up.
  TimePoint last_call = state.last_join.value_or(now) + options.last_call;
  TimePoint until = known && state.round < 0 ? deadline : std::min(last_call, deadline);
  if (now >= until) {
    bool called = until == last_call;
    return open(state, options, called ? "last call is over" : "no word of " + awaited_text(options, hosts));
  }
  const bool calls = until == last_call;
  return wait_until(until, calls ? Waiting::kLastCall : Waiting::kNodes,
                    fmt::format("{}; waiting for {}", count_text(hosts.here, state, options),
                                calls ? "last call" : awaited_text(options, hosts)));
}

Decision make_up_round(TimePoint now, const State& state, const MembershipOptions& options) {
  size_t count = state.nodes.size();
  // The places of a first round are given away by the list of hosts: a spare that is there sooner takes nobody's.
  bool by_list = options.expected > 0 && state.round < 0;
  if (count >= most_nodes(state, options) && !by_list) return open(state, options, "all are there");
  if (count >= needed_nodes(options) && !state.gathering) return open(state, options, "all are there");
  ExpectedHosts hosts = expected_hosts(state, options);
  return count < needed_nodes(options) ? with_too_few(now, state, options, hosts)
                                       : with_enough(now, state, options, hosts);
}

// "; n2 has not confirmed the end of its workers"
std::string unconfirmed_text(TimePoint now, const State& state) {
  std::vector<std::string> hosts;
  for (const Ghost& ghost : state.ghosts)
    if (ghost.safe_at > now) hosts.push_back(ghost.loss.host);
  if (hosts.empty()) return {};
  auto names = some_of(hosts, ", ", [](const std::string& host) { return host; });
  return fmt::format("; {} {} not confirmed the end of {} workers", names, hosts.size() == 1 ? "has" : "have",
                     hosts.size() == 1 ? "its" : "their");
}

// Everything was told to end without any grace: no node is waited for without a bound.
std::optional<Decision> after_kill(TimePoint now, const State& state, const Survey& seen) {
  if (!state.killed_at || !state.stop_signal) return std::nullopt;
  const TimePoint drop_at = *state.killed_at + kKillTime, end_at = drop_at + kKillTime;
  if (!seen.unreaped.empty()) {
    if (now >= drop_at) return drop(*seen.unreaped.front(), Loss::Cause::kNotKilled);
    return wait(Waiting::kWorkers, "waiting for the killed workers to end", drop_at);
  }
  const Ghost* ghost = last_ghost(now, state);
  if (ghost == nullptr) return std::nullopt;
  if (now < end_at)
    return wait(Waiting::kConfirmation,
                fmt::format("waiting for {} to confirm the end of its workers", ghost->loss.host),
                std::min(ghost->safe_at, end_at));
  return end(Ending::kSignalled, 128 + *state.stop_signal, signal_reason(state) + unconfirmed_text(now, state));
}

Decision between_rounds(TimePoint now, const State& state, const MembershipOptions& options, const Survey& seen) {
  if (auto killed = after_kill(now, state, seen)) return *killed;
  if (!seen.unreaped.empty()) {
    auto hosts = some_of(seen.unreaped, ", ", [](const Node* node) { return node->join.host; });
    return wait(Waiting::kWorkers, fmt::format("waiting for the workers on {} to end", hosts));
  }
  if (const Ghost* ghost = last_ghost(now, state))
    return wait_until(ghost->safe_at, Waiting::kLease, loss_text(ghost->loss) + "; its workers may run");
  if (auto judgement = judge(now, state, options)) return *judgement;
  if (state.stop_signal) return end_by_signal(state);
  return make_up_round(now, state, options);
}

}  // namespace

Decision decide(TimePoint now, const State& state, const MembershipOptions& options) {
  if (state.ending) return wait(Waiting::kNothing, "the job is over");
  Survey seen = survey(state);
  const Duration patience = options.lease + fence_margin(options.lease);
  std::optional<TimePoint> fence;
  if (seen.quietest != nullptr && options.lease > Duration::zero()) fence = seen.quietest->heard + patience;
  if (fence && now >= *fence) return drop(*seen.quietest, Loss::Cause::kSilent, now - seen.quietest->heard);
  if (seen.mutest != nullptr) {
    const TimePoint since = *seen.mutest->unanswered;
    if (now >= since + patience) return drop(*seen.mutest, Loss::Cause::kNoAnswer, now - since);
    fence = std::min(fence.value_or(since + patience), since + patience);
  }
  bool goes_on = state.round_state == RoundState::kOpening || state.round_state == RoundState::kRunning;
  Decision decision = goes_on ? during_round(now, state, options, seen) : between_rounds(now, state, options, seen);
  if (decision.kind == Kind::kWait && fence) decision.wake_at = std::min(decision.wake_at.value_or(*fence), *fence);
  return decision;
}

}  // namespace muster::rendezvous
