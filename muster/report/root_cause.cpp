// Who is to blame. Pure: everything is decided from the outcomes.
#include <algorithm>
#include <csignal>
#include <tuple>

#include "muster/report/last_words.h"
#include "muster/report/report.h"
#include "muster/report/words.h"

namespace muster::report {
namespace {

using namespace std::chrono_literals;

// An error older than this when its worker ended was probably handled.
constexpr Duration kFresh = 60s;
// A death by SIGKILL is noticed by way of the kernel and our event loop, an error output of its peers likewise: the two
// may be seen in the wrong order by this much.
constexpr Duration kSeenLate = 100ms;
// Error outputs read in one go on a busy machine: their order tells nothing.
constexpr Duration kSameInstant = 5ms;
// Lines after a traceback that still leave it the last thing a killed process said.
constexpr size_t kLinesAfterError = 12;

enum class Source { kExit, kStderr, kErrorFile };

struct Evidence {
  bool failed = false;
  bool stopped = false;    // nothing shows that it had failed before we stopped it
  bool lost_peer = false;  // its words are those of a lost peer
  TimePoint when;          // of its failure, as well as we know
  Source source = Source::kExit;
};

bool killed_from_outside(const WorkerOutcome& worker) {
  return worker.passed_on || (worker.status.signal == SIGKILL && !worker.stop_requested);
}

// Something that no lost peer causes.
bool is_crash(int signal) {
  return signal == SIGKILL || signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE;
}

bool crashed(const WorkerOutcome& worker) { return is_crash(worker.status.signal) && !worker.stop_requested; }

struct Utterance {
  TimePoint when;
  Source source;
};

// The file's time is in whole seconds of the wall clock; the worker's end is known on both clocks.
std::optional<TimePoint> error_file_time(const WorkerOutcome& worker) {
  if (!worker.error_file || !worker.error_file->timestamp) return std::nullopt;
  auto stamp = std::chrono::system_clock::time_point(std::chrono::seconds(*worker.error_file->timestamp));
  auto age = std::chrono::duration_cast<Duration>(worker.ended_at - stamp);
  return std::clamp(worker.ended - age, worker.started, std::max(worker.started, worker.ended));
}

// The error output that came before we asked it to stop, if any.
std::optional<Utterance> error_before_stop(const WorkerOutcome& worker) {
  const auto& stop = worker.stop_requested;
  if (auto time = worker.output.first_error_time) {
    if (stop && *time >= *stop) return std::nullopt;
    return Utterance{*time, Source::kStderr};
  }
  auto time = error_file_time(worker);
  if (!time) return std::nullopt;
  // Within the second of the stop: a handler of our signal that raises exits by itself; one that died of the signal
  // had written its file before.
  if (stop && *time + 1s > *stop && worker.status.signal == 0) return std::nullopt;
  if (stop && *time >= *stop) return std::nullopt;
  return Utterance{*time, Source::kErrorFile};
}

// Whether the error is what the process ended with, not one that it survived.
bool is_final(const WorkerOutcome& worker, const Utterance& error) {
  if (std::min(worker.stop_requested.value_or(worker.ended), worker.ended) - error.when > kFresh) return false;
  if (error.source != Source::kStderr || worker.status.signal == 0) return true;
  if (crashed(worker) && worker.status.signal != SIGKILL) return true;
  return last_words(worker.output).lines_after <= kLinesAfterError;
}

Evidence weigh(const WorkerOutcome& worker, bool old_errors_count) {
  Evidence evidence;
  evidence.when = worker.ended;
  evidence.failed = !worker.status.success();
  if (!evidence.failed) return evidence;

  auto error = error_before_stop(worker);
  if (error && !worker.passed_on && (old_errors_count || is_final(worker, *error))) {
    evidence.when = error->when;
    evidence.source = error->source;
  } else {
    evidence.stopped = worker.stop_requested.has_value() && !worker.passed_on;
    if (killed_from_outside(worker)) evidence.when -= kSeenLate;
  }
  if (!crashed(worker) && !worker.passed_on && (!evidence.stopped || worker.status.signal == 0))
    evidence.lost_peer = !peer_loss_phrase(failure_words(worker)).empty();
  return evidence;
}

// An error file's second is rounded down; a kill from outside within that second came before, for it needs no cause.
void order_after_kills(const std::vector<WorkerOutcome>& workers, std::vector<Evidence>& evidence) {
  for (Evidence& coarse : evidence) {
    if (coarse.source != Source::kErrorFile) continue;
    TimePoint begin = coarse.when;
    for (size_t i = 0; i < workers.size(); ++i)
      if (killed_from_outside(workers[i]) && evidence[i].when >= begin && evidence[i].when < begin + 1s)
        coarse.when = std::max(coarse.when, evidence[i].when + 1ns);
  }
}

template <typename Predicate>
std::optional<size_t> earliest(const std::vector<WorkerOutcome>& workers, const std::vector<Evidence>& evidence,
                               Predicate eligible) {
  auto key = [&](size_t i) { return std::tuple(evidence[i].when, workers[i].ended, workers[i].rank); };
  std::optional<size_t> best;
  for (size_t i = 0; i < workers.size(); ++i)
    if (evidence[i].failed && eligible(evidence[i]) && (!best || key(i) < key(*best))) best = i;
  return best;
}

// Another error of the same instant whose worker was still ending when we stopped it. Whoever brings others down by its
// death is dead when they notice; whoever closes its connections first and takes its time to end is not. So, when
// `first` lived on after the other error came, the other one is the cause, unless both say the same.
size_t prefer_slow_end(const std::vector<WorkerOutcome>& workers, const std::vector<Evidence>& evidence, size_t first) {
  if (evidence[first].source != Source::kStderr || workers[first].stop_requested) return first;
  auto rival = earliest(workers, evidence, [&](const Evidence& e) {
    const WorkerOutcome& other = workers[static_cast<size_t>(&e - evidence.data())];
    return !e.stopped && !e.lost_peer && e.source == Source::kStderr && other.stop_requested &&
           e.when - evidence[first].when < kSameInstant && workers[first].ended - e.when > kSameInstant &&
           other.output.exception_line != workers[first].output.exception_line;
  });
  return rival.value_or(first);
}

size_t lowest_rank_of_its_signal(const std::vector<WorkerOutcome>& workers, size_t root) {
  if (!workers[root].passed_on) return root;
  for (size_t i = 0; i < workers.size(); ++i)
    if (workers[i].passed_on && workers[i].status.signal == workers[root].status.signal &&
        workers[i].rank < workers[root].rank)
      root = i;
  return root;
}

std::vector<Evidence> weigh_all(const std::vector<WorkerOutcome>& workers, bool old_errors_count) {
  std::vector<Evidence> evidence;
  evidence.reserve(workers.size());
  for (const WorkerOutcome& worker : workers) evidence.push_back(weigh(worker, old_errors_count));
  order_after_kills(workers, evidence);
  return evidence;
}

Blame blame_of(const WorkerOutcome& worker, const Evidence& evidence) {
  if (!evidence.failed) return Blame::kNone;
  if (worker.passed_on) return Blame::kPassedOn;
  if (evidence.lost_peer) return Blame::kPeer;
  // We asked it to stop, but that is not what it died of.
  bool crashed_anyway = is_crash(worker.status.signal) && worker.status.signal != SIGKILL;
  // It had begun to say what went wrong when our signal cut it off: nobody knows what that was.
  bool cut_off = evidence.source == Source::kStderr && worker.stop_requested && worker.status.signal != 0 &&
                 worker.output.exception_line.empty();
  return (evidence.stopped || cut_off) && !crashed_anyway ? Blame::kStopped : Blame::kItself;
}

std::string seconds(Duration duration) {
  return fmt::format("{:.3f} s", std::chrono::duration<double>(duration).count());
}

std::string sign_of(const WorkerOutcome& worker, const Evidence& evidence) {
  switch (evidence.source) {
    case Source::kStderr:
      return fmt::format("rank {}'s error output", worker.rank);
    case Source::kErrorFile:
      return fmt::format("rank {}'s error file", worker.rank);
    case Source::kExit:
      break;
  }
  return fmt::format("rank {}'s end ({})", worker.rank, worker.status.text());
}

std::string explain(const std::vector<WorkerOutcome>& workers, const std::vector<Evidence>& evidence, size_t root) {
  const Evidence& chosen = evidence[root];
  if (workers[root].passed_on)
    return fmt::format("{}: we had been sent that signal, and passed it on", sign_of(workers[root], chosen));
  std::string reason = fmt::format("{} is the earliest sign of failure", sign_of(workers[root], chosen));
  if (chosen.lost_peer) reason += ", though every failure speaks of a lost peer";
  if (workers[root].stop_requested) reason += fmt::format("; it was still ending when we stopped it");

  auto runner_up = earliest(workers, evidence, [&](const Evidence& e) { return &e != &chosen && !e.stopped; });
  if (runner_up && evidence[*runner_up].when >= chosen.when)
    reason += fmt::format("; {} came {} later", sign_of(workers[*runner_up], evidence[*runner_up]),
                          seconds(evidence[*runner_up].when - chosen.when));
  if (runner_up && evidence[*runner_up].when < chosen.when)
    reason +=
        fmt::format("; {} came before but speaks of a lost peer", sign_of(workers[*runner_up], evidence[*runner_up]));
  if (chosen.lost_peer)
    for (const WorkerOutcome& worker : workers)
      if (worker.status.success() && worker.ended <= chosen.when)
        reason += fmt::format("; rank {} had ended with exit code 0 before", worker.rank);
  return reason;
}

// The root cause lost a peer, so somebody else did something first and left no trace of it: whoever was there besides.
std::string doubt_about(const std::vector<WorkerOutcome>& workers, const std::vector<Evidence>& evidence, size_t root) {
  if (!evidence[root].lost_peer || workers.size() == 1) return {};
  std::vector<int> fell, ended, running;
  for (size_t i = 0; i < workers.size(); ++i) {
    const bool before = workers[i].status.success() && workers[i].ended <= evidence[root].when;
    (evidence[i].lost_peer ? fell : before ? ended : running).push_back(workers[i].rank);
  }
  const bool one = running.size() == 1;
  std::string doubt = ranks_text(fell) + " failed because a peer was gone";
  if (!ended.empty()) doubt += fmt::format("; {} had ended before that, with exit code 0", ranks_text(ended));
  if (!running.empty())
    doubt += fmt::format("; {} {} still running then, and {} be the cause", ranks_text(running), one ? "was" : "were",
                         one ? "may" : "one of them may");
  if (ended.empty() && running.empty()) doubt += ", all of them: nothing shows which was the first";
  return doubt;
}

}  // namespace

bool Verdict::has_root_cause() const {
  return std::find(blames.begin(), blames.end(), Blame::kRootCause) != blames.end();
}

Verdict judge(const std::vector<WorkerOutcome>& workers) {
  auto by_itself = [](const Evidence& e) { return !e.stopped && !e.lost_peer; };
  std::vector<Evidence> evidence = weigh_all(workers, false);
  std::optional<size_t> root = earliest(workers, evidence, by_itself);
  if (!root) {
    evidence = weigh_all(workers, true);
    root = earliest(workers, evidence, by_itself);
  }
  if (root) root = lowest_rank_of_its_signal(workers, prefer_slow_end(workers, evidence, *root));
  if (!root) root = earliest(workers, evidence, [](const Evidence& e) { return !e.stopped; });

  Verdict verdict;
  for (size_t i = 0; i < workers.size(); ++i) verdict.blames.push_back(blame_of(workers[i], evidence[i]));
  if (root) {
    verdict.root = *root;
    verdict.blames[*root] = Blame::kRootCause;
    verdict.reason = explain(workers, evidence, *root);
    verdict.doubt = doubt_about(workers, evidence, *root);
  } else {
    verdict.root = earliest(workers, evidence, [](const Evidence&) { return true; }).value_or(0);
    bool failed = std::any_of(evidence.begin(), evidence.end(), [](const Evidence& e) { return e.failed; });
    verdict.reason =
        failed ? "no worker failed by itself: all that did not succeed were stopped" : "every worker succeeded";
  }
  return verdict;
}

int job_exit_code(const WorkerOutcome& root) {
  bool ended_by_us = root.stop_requested && root.status.signal != 0 && !root.passed_on;
  return ended_by_us ? 1 : root.status.shell_code();
}

}  // namespace muster::report
