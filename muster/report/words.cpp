#include "muster/report/words.h"

#include <algorithm>
#include <csignal>

#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/process/signals.h"
#include "muster/report/last_words.h"

namespace muster::report {
namespace {

// Where the reason is looked for when there is no exception.
constexpr size_t kLastLines = 10, kLastLinesOfAbort = 60;

std::string_view meaning_of(int signal) {
  switch (signal) {
    case SIGKILL:
      return "killed from outside, not by muster";
    case SIGSEGV:
      return "invalid memory access";
    case SIGBUS:
      return "bus error, often a full /dev/shm";
    case SIGILL:
      return "an instruction this CPU does not have";
    case SIGFPE:
      return "arithmetic error, such as an integer division by zero";
    case SIGABRT:
      return "it aborted itself";
    case SIGXCPU:
      return "its limit of CPU time";
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
      return "sent from outside, not by muster";
    default:
      return {};
  }
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string how_it_ended(const WorkerOutcome& worker) {
  int signal = worker.status.signal;
  if (worker.passed_on)
    return fmt::format("{}, which muster received and passed on: it has no handler for it",
                       process::signal_name(signal));
  if (signal != 0 && worker.stop_requested)
    return fmt::format("failed, and {} by muster while it was still ending", process::signal_name(signal));
  std::string name = signal != 0 ? process::signal_name(signal) : fmt::format("exit code {}", worker.status.code);
  // A shell around the program passes its signal on in this way.
  int passed_on = signal == 0 && worker.status.code > 128 ? worker.status.code - 128 : 0;
  if (passed_on > 0 && passed_on < SIGRTMIN)
    name += fmt::format(", as a shell reports {}", process::signal_name(passed_on));

  if (signal == SIGKILL || passed_on == SIGKILL) {
    if (worker.oom == process::OomVerdict::kYes)
      return name + " by the kernel: out of memory (the job's own memory limit)";
    if (worker.oom == process::OomVerdict::kPossibly)
      return name + ": possibly out of memory (the host killed something for memory at that time)";
  }
  std::string_view meaning = meaning_of(signal);
  return meaning.empty() ? name : fmt::format("{}: {}", name, meaning);
}

bool lost_a_child_to_memory(const WorkerOutcome& worker) {
  return worker.oom == process::OomVerdict::kYes && worker.status.signal != SIGKILL &&
         worker.status.code != 128 + SIGKILL;
}

std::string fate_of(const WorkerOutcome& worker, Blame blame) {
  bool by_our_signal = worker.stop_requested && worker.status.signal != 0;
  std::string end = worker.status.signal != 0 ? process::signal_name(worker.status.signal) : worker.status.text();
  auto because = [&](std::string_view why) {
    if (why.empty()) return end;
    return by_our_signal ? std::string(why) : fmt::format("{}: {}", end, why);
  };
  switch (blame) {
    case Blame::kNone:
      return "succeeded (exit code 0)";
    case Blame::kStopped:
      return fmt::format("stopped by muster ({})", end);
    case Blame::kPeer:
      return fmt::format("failed because a peer was gone ({})", because(peer_loss_phrase(failure_words(worker))));
    case Blame::kItself:
      return fmt::format("failed by itself ({})", because(exception_of(worker)));
    case Blame::kPassedOn:
      return fmt::format("died of {}, which muster passed on", end);
    case Blame::kRootCause:
      break;
  }
  return how_it_ended(worker);
}

std::string passed_on_text(const Report& report) {
  const WorkerOutcome& root = report.workers[report.verdict.root];
  if (!root.passed_on) return {};
  std::vector<int> ranks;
  for (const WorkerOutcome& worker : report.workers)
    if (worker.passed_on && worker.status.signal == root.status.signal) ranks.push_back(worker.rank);
  return fmt::format("muster received {} and passed it on; {} {} no handler for it",
                     process::signal_name(root.status.signal), ranks_text(ranks), ranks.size() == 1 ? "has" : "have");
}

std::string exception_of(const WorkerOutcome& worker) {
  if (worker.error_file && worker.error_file->structured) return printable(first_line(worker.error_file->message));
  if (!worker.output.exception_line.empty()) return printable(worker.output.exception_line);
  return worker.error_file ? printable(first_line(worker.error_file->message)) : std::string();
}

std::string failure_in_short(const WorkerOutcome& worker) {
  constexpr size_t kLongest = 200;
  std::string exception = exception_of(worker);
  if (exception.empty()) return worker.status.text();
  if (exception.size() > kLongest) exception = printable(exception.substr(0, kLongest)) + "…";
  return fmt::format("{}: {}", worker.status.text(), exception);
}

std::string failure_words(const WorkerOutcome& worker) {
  if (auto words = last_words(worker.output); !words.first_exception.empty()) return words.first_exception;
  if (worker.error_file) {
    auto words = last_words(worker.error_file->callstack);
    return words.first_exception.empty() ? worker.error_file->message : words.first_exception;
  }
  size_t count = worker.status.signal == SIGABRT ? kLastLinesOfAbort : kLastLines;
  return join(last_lines(worker.output.tail, count), "\n");
}

std::string duration_text(Duration duration) {
  double seconds = std::max(0.0, std::chrono::duration<double>(duration).count());
  if (seconds < 9.995) return fmt::format("{:.2f} s", seconds);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  auto whole = static_cast<long long>(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string ranks_text(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return (ranks.size() == 1 ? "rank " : "ranks ") + number_ranges(ranks, ", ");
}

std::string_view blame_name(Blame blame) {
  switch (blame) {
    case Blame::kNone:
      return "none";
    case Blame::kRootCause:
      return "root-cause";
    case Blame::kItself:
      return "itself";
    case Blame::kPeer:
      return "peer";
    case Blame::kStopped:
      return "stopped";
    case Blame::kPassedOn:
      return "passed-on";
  }
  return "none";
}

}  // namespace muster::report
