#include "muster/report/publication.h"

#include <unistd.h>

#include <filesystem>

#include "muster/base/detached_thread.h"
#include "muster/base/fd.h"
#include "muster/base/new_file.h"
#include "muster/job/worker_env.h"
#include "muster/report/words.h"

namespace muster::report {
namespace {

constexpr auto kReportTime = std::chrono::seconds(5);  // for its file system; a reader has less
constexpr auto kCopyTime = std::chrono::seconds(2);    // for the file systems of two error files

// A worker that asks for input and has none, in a debugger for instance, ends with an error that does not tell why.
std::string no_input_note(const job::StdinSpec& input, const WorkerOutcome& root, bool several_nodes) {
  using Kind = job::StdinSpec::Kind;
  if (input.kind != Kind::kNone && (input.kind != Kind::kRank || input.rank == root.rank)) return {};
  const std::string exception = exception_of(root);
  if (exception != "bdb.BdbQuit" && exception != "EOFError: EOF when reading a line") return {};
  if (several_nodes)
    return fmt::format(
        "rank {} asked for input, and in a job of several nodes no worker has any; debug it on one node with --stdin "
        "RANK, or with a debugger that listens on a port (PYTHONBREAKPOINT=remote_pdb.set_trace)",
        root.rank);
  return fmt::format("rank {0} asked for input and has none; --stdin {0} gives it yours", root.rank);
}

Result<void> copy_with_code(const std::string& from, const std::string& to, int code) {
  MUSTER_TRY(std::string text, read_regular_file(from));
  MUSTER_TRY(std::string copy, error_file_with_code(text, code));
  return write_whole_file(to, copy);
}

// What is there is a link, a device, or a file in a directory of another user: it stays, and is written to.
Result<void> write_report(const std::string& path, const std::string& text) {
  std::error_code error;
  const bool there = std::filesystem::exists(std::filesystem::symlink_status(path, error));
  return there ? write_whole_file(path, text) : write_new_file(path, text);
}

}  // namespace

Report make_report(const job::JobSpec& job, job::Ending kind, int exit_code, std::vector<WorkerOutcome> outcomes,
                   Verdict verdict, bool several_nodes) {
  Report report;
  report.kind = kind;
  report.entrypoint = job.command.entrypoint;
  report.command = job::shown_argv(job.command, outcomes.empty() ? 0 : outcomes[verdict.root].local_rank);
  report.run_id = job.run_id;
  report.max_restarts = job.max_restarts;
  report.workers = std::move(outcomes);
  report.verdict = std::move(verdict);
  if (report.verdict.has_root_cause())
    report.note = no_input_note(job.stdin_spec, report.workers[report.verdict.root], several_nodes);
  report.exit_code = exit_code;
  return report;
}

std::string report_text(const job::JobSpec& job, const Report& report, bool colour) {
  if (job.flavor == job::Flavor::kMuster) return render(report, colour);
  switch (report.kind) {
    case job::Ending::kWorkerFailed:
    case job::Ending::kCrashLoop:
      return render_torchrun(report);
    case job::Ending::kSucceeded:
    case job::Ending::kSignalled:
    case job::Ending::kMusterFailed:
      return {};
    default:  // torchrun has no words for what nodes have done
      return render(report, colour);
  }
}

void remove_old_report(const job::JobSpec& job) {
  std::error_code error;
  // Behind a link, so that the new one comes where the link leads; and never a device or a FIFO.
  const std::filesystem::path file = std::filesystem::canonical(job.report_file, error);
  if (error || !std::filesystem::is_regular_file(file, error)) return;
  // In a directory of somebody else a file of ours can be emptied, and no more.
  if (!std::filesystem::remove(file, error)) std::filesystem::resize_file(file, 0, error);
}

void write_report_file(const job::JobSpec& job, output::Console& console, const Report& report) {
  if (job.report_file.empty()) return;
  auto written = call_with_deadline<Result<void>>(
      Deadline::in(kReportTime), [path = job.report_file, text = to_json(report)] { return write_report(path, text); });
  if (!written)
    return console.log().error("the report is lost: {} is on a file system that does not respond", job.report_file);
  if (*written) return;
  console.log().error("the report is lost: {}", written->error().text());
  remove_old_report(job);  // half of one
}

void copy_error_file(const job::JobSpec& job, output::Console& console, const WorkerOutcome& root) {
  const std::string* target = job.environment.find("TORCHELASTIC_ERROR_FILE");
  if (target == nullptr || target->empty() || root.error_file_path.empty()) return;
  auto written = call_with_deadline<Result<void>>(
      Deadline::in(kCopyTime), [from = root.error_file_path, to = *target, code = root.status.popen_code()] {
        return copy_with_code(from, to, code);
      });
  const std::string why = !written    ? "a file system does not respond"
                          : !*written ? written->error().text()
                                      : std::string();
  if (!why.empty()) console.log().warn("cannot copy {} to {}: {}", root.error_file_path, *target, why);
}

bool wants_colour(const job::JobSpec& job) {
  const std::string* no_colour = job.environment.find("NO_COLOR");
  return ::isatty(STDERR_FILENO) == 1 && (no_colour == nullptr || no_colour->empty());
}

}  // namespace muster::report
