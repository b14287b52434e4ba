// torchrun's failure box, byte for byte.
#include <algorithm>
#include <ctime>

#include "muster/base/strings.h"
#include "muster/process/signals.h"
#include "muster/report/report.h"

namespace muster::report {
namespace {

constexpr size_t kMaxWidth = 60;
constexpr std::string_view kHint = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html";

size_t widest_line(std::string_view text) {
  size_t width = 0;
  for (std::string_view line : split(text, '\n')) width = std::max(width, count_characters(line));
  return width;
}

std::string local_time(const WorkerOutcome& worker) {
  time_t seconds = std::chrono::system_clock::to_time_t(worker.ended_at);
  if (worker.error_file && worker.error_file->timestamp) seconds = static_cast<time_t>(*worker.error_file->timestamp);
  tm parts{};
  char text[32];
  if (localtime_r(&seconds, &parts) == nullptr || strftime(text, sizeof text, "%Y-%m-%d_%H:%M:%S", &parts) == 0)
    return "<N/A>";
  return text;
}

// The names Python's signal module knows: no "SIGRTMIN+2", no "signal 77".
std::string python_signal_name(int signal) {
  std::string name = process::signal_name(signal);
  bool known = name.starts_with("SIG") && name.find_first_of("+-") == std::string::npos;
  return known ? name : "<N/A>";
}

std::string indented(std::string_view text) {
  std::string result;
  for (char c : text) {
    result += c;
    if (c == '\n') result += "  ";
  }
  return result;
}

std::string message_of(const WorkerOutcome& worker) {
  if (worker.error_file && worker.error_file->structured)
    return indented(worker.error_file->callstack.empty() ? worker.error_file->message : worker.error_file->callstack);
  if (worker.error_file && !worker.error_file->message.empty()) return worker.error_file->message;
  int signal = worker.status.signal;
  if (signal == 0) return std::string(kHint);
  return fmt::format("Signal {} ({}) received by PID {}", signal, python_signal_name(signal), worker.pid);
}

std::string entry(size_t index, const WorkerOutcome& worker) {
  std::string name = worker.status.signal != 0 ? python_signal_name(worker.status.signal) : "<N/A>";
  return fmt::format(
      "[{}]:\n"
      "  time      : {}\n"
      "  host      : {}\n"
      "  rank      : {} (local_rank: {})\n"
      "  exitcode  : {} (pid: {}) {}\n"
      "  error_file: {}\n"
      "  traceback : {}",
      index, local_time(worker), worker.host, worker.rank, worker.local_rank, worker.status.popen_code(), worker.pid,
      name == "<N/A>" ? std::string() : fmt::format(" ({})", name),
      worker.error_file ? worker.error_file_path : std::string("<N/A>"), message_of(worker));
}

// torchrun's map of failures: those that ended by themselves, then those it stopped, each by local rank.
std::vector<size_t> failures_in_order(const Report& report) {
  std::vector<size_t> order;
  for (size_t i = 0; i < report.workers.size(); ++i)
    if (!report.workers[i].status.success()) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const WorkerOutcome &x = report.workers[a], &y = report.workers[b];
    return std::tuple(x.stop_requested.has_value(), x.local_rank) <
           std::tuple(y.stop_requested.has_value(), y.local_rank);
  });
  return order;
}

}  // namespace

std::string render_torchrun(const Report& report) {
  std::string title = report.entrypoint + " FAILED";
  size_t width = count_characters(title);
  std::string others, root;
  std::vector<size_t> order = failures_in_order(report);
  for (size_t i = 0; i < order.size(); ++i) {
    std::string text = entry(i, report.workers[order[i]]);
    width = std::max(width, widest_line(text));
    if (order[i] == report.verdict.root) {
      root = std::move(text);
    } else {
      others += (others.empty() ? "" : "\n") + text;
    }
  }
  if (others.empty()) others = "  <NO_OTHER_FAILURES>";
  width = std::min(width, kMaxWidth);
  std::string border(width, '='), section(width, '-');
  return fmt::format(
      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
      "{0}\n{2}\n{1}\nFailures:\n{3}\n{1}\nRoot Cause (first observed failure):\n{4}\n{0}\n",
      border, section, title, others, root);
}

}  // namespace muster::report
