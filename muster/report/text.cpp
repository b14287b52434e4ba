// The report for people.
#include <map>
#include <utility>

#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/process/signals.h"
#include "muster/report/report.h"
#include "muster/report/words.h"

namespace muster::report {
namespace {

constexpr size_t kTailLines = 20;

// Escape codes, all empty without colour.
struct Paint {
  std::string_view headline, error, label, reset;
};
Paint paint_for(bool colour) { return colour ? Paint{"\x1b[1;31m", "\x1b[31m", "\x1b[2m", "\x1b[0m"} : Paint{}; }

class Text {
 public:
  explicit Text(bool colour) : paint_(paint_for(colour)) {}

  void headline(std::string_view text) {
    text_ += fmt::format("{}muster: {}{}\n", paint_.headline, text, paint_.reset);
  }
  void error(std::string_view text) { text_ += fmt::format("  {}{}{}\n", paint_.error, text, paint_.reset); }
  void line(std::string_view text) { text_ += fmt::format("  {}\n", text); }
  void quoted(std::string_view text) { text_ += text.empty() ? "\n" : fmt::format("    {}\n", text); }
  void field(std::string_view label, std::string_view text) {
    text_ += fmt::format("  {}{:<8}{} {}\n", paint_.label, label, paint_.reset, text);
  }
  std::string take() { return std::move(text_); }

 private:
  Paint paint_;
  std::string text_;
};

std::string who(const WorkerOutcome& worker) {
  return fmt::format("rank {} (local rank {}, pid {}) on {}", worker.rank, worker.local_rank, worker.pid,
                     printable(worker.host));
}

bool is_in_headline(const Report& report, const WorkerOutcome& worker) {
  const WorkerOutcome& root = report.workers[report.verdict.root];
  return report.verdict.has_root_cause() && root.passed_on && worker.passed_on &&
         worker.status.signal == root.status.signal;
}

void add_others(Text& text, const Report& report) {
  std::vector<std::string> order;  // of first appearance
  std::map<std::string, std::vector<int>> ranks;
  for (size_t i = 0; i < report.workers.size(); ++i) {
    if (report.verdict.blames[i] == Blame::kRootCause || is_in_headline(report, report.workers[i])) continue;
    std::string what = fate_of(report.workers[i], report.verdict.blames[i]);
    if (ranks[what].empty()) order.push_back(what);
    ranks[what].push_back(report.workers[i].rank);
  }
  std::string_view label = report.verdict.has_root_cause() ? "others" : "workers";
  for (const std::string& what : order) {
    text.field(label, fmt::format("{}: {}", ranks_text(ranks[what]), what));
    label = "";
  }
}

void add_quote(Text& text, std::string_view title, std::string_view from) {
  text.line(title);
  for (const std::string& line : last_lines(from, kTailLines)) text.quoted(line);
}

void add_last_words(Text& text, const WorkerOutcome& worker) {
  if (std::string exception = exception_of(worker); !exception.empty()) text.error(exception);
  bool tail_says_it = !worker.output.exception_line.empty();
  if (worker.error_file && !worker.error_file->callstack.empty() && !tail_says_it) {
    add_quote(text, "its call stack:", worker.error_file->callstack);
  } else if (!trim(worker.output.tail).empty()) {
    add_quote(text, "last lines of its stderr:", worker.output.tail);
  } else if (!worker.error_file) {
    text.line("it wrote nothing to stderr");
  }
}

void add_root_cause(Text& text, const Report& report) {
  const WorkerOutcome& root = report.workers[report.verdict.root];
  if (root.passed_on) {
    text.headline(fmt::format("{} failed: {}", printable(report.entrypoint), passed_on_text(report)));
  } else {
    text.headline(fmt::format("{} failed: {}: {} after {}", printable(report.entrypoint), who(root), how_it_ended(root),
                              duration_text(root.ended - root.started)));
    if (lost_a_child_to_memory(root))
      text.error("meanwhile the kernel killed a process of the job: out of memory (the job's own memory limit)");
    add_last_words(text, root);
  }
  // A lost node is explanation enough.
  if (!report.verdict.doubt.empty() && report.lost_nodes.empty()) text.field("but", report.verdict.doubt);
  if (!root.stderr_log.empty()) text.field("log", printable(root.stderr_log));
  if (root.stderr_log.empty() && !root.stdout_log.empty()) text.field("log", printable(root.stdout_log));
  if (root.error_file && !root.error_file_path.empty()) text.field("error", printable(root.error_file_path));
  text.field("command", printable(shell_quote(report.command)));
}

// "muster received SIGTERM", "Slurm cancelled job 42 (SIGTERM)".
std::string stop_text(const Report& report) {
  const std::string signal = process::signal_name(report.signal);
  if (!report.note.empty()) return fmt::format("{} ({})", printable(report.note), signal);
  const std::string whose = report.signalled_host.empty() ? "" : printable(report.signalled_host) + "'s ";
  return fmt::format("{}muster received {}", whose, signal);
}

}  // namespace

std::string render(const Report& report, bool colour) {
  Text text(colour);
  bool judged = report.workers.size() == report.verdict.blames.size() && !report.workers.empty();
  if (judged && report.verdict.has_root_cause()) {
    add_root_cause(text, report);
  } else if (report.kind == job::Ending::kSignalled) {
    text.headline(fmt::format("{} was stopped: {}", printable(report.entrypoint), stop_text(report)));
  } else {
    text.headline(fmt::format("{} failed: {}", printable(report.entrypoint),
                              report.message.empty() ? "the workers were stopped" : printable(report.message)));
  }
  if (!report.note.empty() && report.kind != job::Ending::kSignalled) text.field("note", printable(report.note));
  std::string_view label = report.kind == job::Ending::kNodeLost ? "lost" : "missing";
  for (const std::string& lost : report.lost_nodes) text.field(std::exchange(label, ""), printable(lost));
  if (judged) add_others(text, report);
  if (report.max_restarts > 0)
    text.field("restarts", fmt::format("{} of {} used", report.restarts, report.max_restarts));
  return text.take();
}

std::string with_bright_headline(const std::string& report) {
  const Paint paint = paint_for(true);
  const size_t end = report.find('\n');
  if (end == std::string::npos) return report;
  return fmt::format("{}{}{}{}", paint.headline, report.substr(0, end), paint.reset, report.substr(end));
}

}  // namespace muster::report
