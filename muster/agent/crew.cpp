#include "muster/agent/crew.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>

#include "muster/agent/worker_signals.h"
#include "muster/container/commands.h"
#include "muster/net/resolve.h"
#include "muster/process/descendants.h"

namespace muster::agent {
namespace {

// For the file system of a round's error files, all together; less if the lease is short.
constexpr Duration kErrorFileTime = std::chrono::seconds(2);

// The warden ends an agent that does nothing for a lease: reading error files may take a quarter of the lease at most.
Deadline error_file_deadline(const job::Round& round) {
  return Deadline::in(round.lease == Duration::zero() ? kErrorFileTime : std::min(kErrorFileTime, round.lease / 4));
}

void take_error_file(report::WorkerOutcome& outcome, const std::string& path, Deadline deadline, Log& log) {
  auto text = report::read_error_file(path, deadline);
  if (text && !*text) return;
  if (!text && text.error().kind == ErrorKind::kTimeout)
    return log.warn("the error file of rank {}, {}, cannot be read: {}", outcome.rank, path, text.error().text());
  outcome.error_file_path = path;
  auto parsed = text ? report::parse_error_file(**text) : Result<report::ErrorFile>(text.error());
  if (parsed) {
    outcome.error_file = *std::move(parsed);
  } else {
    log.warn("the error file of rank {}, {}, is not understood: {}", outcome.rank, path, parsed.error().text());
  }
}

bool is_terminal(int fd) { return fd >= 0 && ::isatty(fd) == 1; }

// What is started for the worker is the runtime, which starts the worker inside.
void enter_container(process::SpawnSpec& spec, const job::JobSpec& job) {
  container::Worker worker{.argv = std::move(spec.argv),
                           .environment = std::move(spec.environment),
                           .from_node = job.environment,
                           .reads_stdin = spec.stdin_fd >= 0,
                           .terminal = is_terminal(spec.stdin_fd) ||
                                       is_terminal(spec.stdout_fd < 0 ? 1 : spec.stdout_fd) ||
                                       is_terminal(spec.stderr_fd < 0 ? 2 : spec.stderr_fd)};
  worker.argv[0] = spec.program;
  container::CommandLine line = container::worker_command(*job.container, worker);
  spec.program = line.argv[0];
  spec.argv = std::move(line.argv);
  spec.environment = std::move(line.environment);
}

}  // namespace

Crew::Crew(const job::JobSpec& job, const output::LogLayout& layout, output::Output& output, job::Round round,
           const std::string& timer_file)
    : job_(job), layout_(layout), output_(output), round_(std::move(round)), timer_file_(timer_file) {
  workers_.reserve(static_cast<size_t>(job.workers));  // handed out by address
}

Result<Worker*> Crew::start_next(const std::vector<int>& cpus) {
  Worker worker;
  worker.placement = job::place_worker(round_, static_cast<int>(workers_.size()), job_.workers);
  int local_rank = worker.placement.local_rank;
  worker.marker = job::worker_marker(round_, worker.placement.rank);
  MUSTER_TRY(output::WorkerStdio stdio, output_.open(round_, worker.placement));

  process::SpawnSpec spec;
  spec.program = job_.command.program;
  spec.argv = job::worker_argv(job_.command, local_rank);
  spec.environment = job::worker_environment(
      job_, round_, worker.placement, {.error = layout_.error_file(round_.number, local_rank), .timer = timer_file_});
  spec.stdin_fd = stdio.stdin_fd < 0 && !stdio.stdin_null ? STDIN_FILENO : stdio.stdin_fd;
  spec.stdout_fd = stdio.stdout_fd;
  spec.stderr_fd = stdio.stderr_fd;
  spec.cpus = cpus;
  if (job_.container) enter_container(spec, job_);
  spec.open_files = job_.open_files;
  worker.started = Clock::now();
  auto child = process::spawn(spec);
  output_.child_started(local_rank);
  if (!child) {
    output_.drain(local_rank);
    return std::move(child).error();
  }
  worker.child = *std::move(child);
  worker.running = true;
  ++running_;
  workers_.push_back(std::move(worker));
  return &workers_.back();
}

void Crew::read_memory_counters() {
  oom_before_ = std::move(oom_latest_);
  oom_latest_ = process::read_oom_counters();
  if (!oom_before_) oom_before_ = oom_latest_;
}

bool Crew::anyone_failed() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return !worker.running && !worker.status.success(); });
}

Worker* Crew::find(pid_t pid) {
  auto found = std::find_if(workers_.begin(), workers_.end(),
                            [&](const Worker& worker) { return worker.running && worker.child.pid == pid; });
  return found == workers_.end() ? nullptr : &*found;
}

const Worker* Crew::owner_of(pid_t pid) const {
  auto found = std::find_if(workers_.begin(), workers_.end(), [&](const Worker& worker) {
    return worker.running && process::belongs_to(pid, worker.child.pid, worker.marker);
  });
  return found == workers_.end() ? nullptr : &*found;
}

bool Crew::collect(Worker& worker) {
  auto status = process::try_reap(worker.child);
  if (!status) return false;
  *status = status_of_worker(job_, *status);
  note_end(worker, *status);
  if (!status->success() && !worker.stop_requested && oom_before_)
    worker.oom = process::judge_oom(*oom_before_, process::read_oom_counters());
  return true;
}

void Crew::abandon(Worker& worker) { note_end(worker, {.signal = SIGKILL}); }

void Crew::note_end(Worker& worker, process::ExitStatus status) {
  worker.status = status;
  worker.ended = Clock::now();
  worker.ended_at = std::chrono::system_clock::now();
  worker.running = false;
  --running_;
  output_.drain(worker.placement.local_rank);
}

void Crew::ask(Worker& worker, int signal, TimePoint now) {
  if (!worker.running) return;
  if (!worker.stop_requested) worker.stop_requested = now;
  signal_worker(job_, worker.child.pid, worker.marker, signal);
  // Whoever is stopped can only answer when it runs again.
  signal_worker(job_, worker.child.pid, worker.marker, SIGCONT);
}

void Crew::kill(Worker& worker) {
  if (!worker.running) return;
  worker.killed = true;
  signal_worker(job_, worker.child.pid, worker.marker, SIGKILL);
}

void Crew::signal_all(int signal) {
  for (const Worker& worker : workers_)
    if (worker.running) signal_worker(job_, worker.child.pid, worker.marker, signal);
}

void Crew::pass_on(int signal) {
  for (Worker& worker : workers_)
    if (worker.running && !worker.stop_requested) worker.passed_on.insert(signal);
  signal_all(signal);
}

std::vector<Crew::LeftRunning> Crew::left_running(TimePoint ended_by, Deadline deadline) const {
  auto exited_well = [&](const Worker& worker) {
    return !worker.running && !worker.swept && worker.status.success() && worker.ended <= ended_by;
  };
  auto owner_of_left = [&](pid_t pid) {
    return std::find_if(workers_.begin(), workers_.end(), [&](const Worker& worker) {
      return exited_well(worker) && process::belongs_to(pid, worker.child.pid, worker.marker);
    });
  };
  std::map<int, LeftRunning> by_rank;
  if (std::none_of(workers_.begin(), workers_.end(), exited_well)) return {};
  for (pid_t pid : process::still_running(deadline, [&](pid_t pid) { return owner_of_left(pid) != workers_.end(); })) {
    const auto owner = owner_of_left(pid);
    if (owner == workers_.end()) continue;  // it has ended meanwhile
    LeftRunning& left = by_rank[owner->placement.rank];
    left.rank = owner->placement.rank;
    left.pids.push_back(pid);
  }
  std::vector<LeftRunning> all;
  all.reserve(by_rank.size());
  for (auto& [rank, left] : by_rank) all.push_back(std::move(left));
  return all;
}

bool Crew::sweep(TimePoint exited_by, TimePoint failed_by, bool keep_children, Deadline deadline) {
  std::vector<pid_t> running;
  std::vector<const Worker*> gone;
  bool later = false;
  for (Worker& worker : workers_) {
    if (worker.running) {
      running.push_back(worker.child.pid);
    } else if (!worker.swept && !(keep_children && worker.status.success())) {
      const bool too_soon = worker.ended > (worker.status.success() ? exited_by : failed_by);
      later |= too_soon;
      if (too_soon) continue;
      gone.push_back(&worker);
      worker.swept = true;
    }
  }
  if (gone.empty()) return later;
  process::kill_descendants(deadline, running, [&](pid_t pid) {
    return std::any_of(gone.begin(), gone.end(), [&](const Worker* worker) {
      return process::belongs_to(pid, worker->child.pid, worker->marker);
    });
  });
  return later;
}

size_t Crew::end_all(Deadline deadline) { return process::kill_descendants(deadline).size(); }

std::vector<report::WorkerOutcome> Crew::outcomes(Log& log) const {
  // The resolver may take its time, and torchrun alone wants the full name.
  std::string host =
      job_.flavor == job::Flavor::kMuster ? job_.host : net::fully_qualified_hostname(Deadline::in(net::kOwnNameTime));
  const Deadline error_files = error_file_deadline(round_);
  std::vector<report::WorkerOutcome> outcomes;
  for (const Worker& worker : workers_) {
    int local_rank = worker.placement.local_rank;
    report::WorkerOutcome outcome;
    outcome.rank = worker.placement.rank;
    outcome.local_rank = local_rank;
    outcome.pid = worker.child.pid;
    outcome.host = host;
    outcome.status = worker.status;
    outcome.started = worker.started;
    outcome.ended = worker.ended;
    outcome.ended_at = worker.ended_at;
    outcome.stop_requested = worker.stop_requested;
    outcome.passed_on = worker.passed_on.contains(worker.status.signal);
    outcome.output = output_.digest(local_rank);
    outcome.stdout_log = output_.log_file(local_rank, job::Stream::kStdout);
    outcome.stderr_log = output_.log_file(local_rank, job::Stream::kStderr);
    outcome.oom = worker.oom;
    if (!worker.status.success())
      take_error_file(outcome, layout_.error_file(round_.number, local_rank), error_files, log);
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

void Crew::record_ends(report::Events& events, bool failed) const {
  const Deadline error_files = error_file_deadline(round_);
  for (const Worker& worker : workers_) {
    std::string raw_error;
    const std::string path = layout_.error_file(round_.number, worker.placement.local_rank);
    if (failed && !worker.status.success())
      if (auto text = report::read_error_file(path, error_files); text && *text) raw_error = **std::move(text);
    events.worker_ended(worker.placement, worker.child.pid, worker.status, raw_error, round_.restarts, failed);
  }
}

}  // namespace muster::agent
