#include "muster/output/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <utility>

#include "muster/net/address.h"
#include "muster/output/label.h"
#include "muster/output/stdin_relay.h"
#include "muster/output/stream_plan.h"
#include "muster/output/worker_stream.h"

namespace muster::output {
namespace {

constexpr job::Stream kStreams[] = {job::Stream::kStdout, job::Stream::kStderr};

}  // namespace

struct Output::Impl {
  struct Worker {
    std::unique_ptr<WorkerStream> streams[2];  // null: inherited or /dev/null
    Fd stdin_end;
  };

  Impl(net::EventLoop& loop_in, Console& console_in, const job::JobSpec& job_in, const LogLayout& layout_in)
      : context{loop_in,
                console_in,
                FileWriter(loop_in),
                std::make_unique_for_overwrite<char[]>(StreamContext::kReadSize),
                {},
                nullptr},
        job(job_in),
        layout(layout_in),
        hostname(job_in.host) {}

  StreamContext context;
  const job::JobSpec& job;
  const LogLayout& layout;
  std::string hostname;
  std::map<int, Worker> workers;  // by local rank
  std::unique_ptr<StdinRelay> relay;
  Fd null;
  Duration patience = std::chrono::seconds(3);  // for the log files of one worker to be opened
  int filters_round = -1;
  int unlogged_round = -1;      // the file system did not respond when a log file of this round was to be opened
  uint64_t dropped_before = 0;  // by streams that are gone

  WorkerStream::Options stream_options(const job::Round& round, const job::Placement& placement, job::Stream stream,
                                       const StreamPlan& plan, const void* writer) const;
  Result<int> open_stream(const job::Round& round, const job::Placement& placement, job::Stream stream, Worker& worker,
                          Deadline deadline);
  Result<void> open_stdin(const job::Placement& placement, Worker& worker, WorkerStdio& stdio);
  Result<void> open_filters(int round, Deadline deadline);
  void go_on_without_files(int round, const Error& why);
  Result<int> null_fd();
  bool has_stdin(const job::Placement& placement) const;
  // torchrun's logs grow without limit.
  uint64_t log_cap() const { return job.flavor == job::Flavor::kMuster ? job.output.cap : 0; }
};

WorkerStream::Options Output::Impl::stream_options(const job::Round& round, const job::Placement& placement,
                                                   job::Stream stream, const StreamPlan& plan,
                                                   const void* writer) const {
  WorkerStream::Options options{.plan = plan, .stream = stream, .cap = log_cap(), .writer = writer};
  options.name = fmt::format("rank {} {}", placement.rank, stream == job::Stream::kStdout ? "stdout" : "stderr");
  if (plan.labelled) options.label = worker_label(job, placement, hostname);
  if (plan.file) options.log_path = layout.stream_file(round.number, placement.local_rank, stream);
  bool lines = plan.console && plan.style == StreamPlan::Style::kLines;
  bool terminal = context.console.is_terminal(stream);
  const bool progress = lines && placement.rank == job.output.progress_rank;
  options.shows_progress = progress && terminal;
  if (progress && !terminal) options.progress_period = job.output.progress_period;
  options.prompts = lines && has_stdin(placement);
  return options;
}

bool Output::Impl::has_stdin(const job::Placement& placement) const {
  return job.stdin_spec.kind == job::StdinSpec::Kind::kRank && job.stdin_spec.rank == placement.rank;
}

Result<int> Output::Impl::null_fd() {
  if (!null) null.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return system_error(errno, "/dev/null");
  return null.get();
}

// The descriptor for the child; -1: ours.
Result<int> Output::Impl::open_stream(const job::Round& round, const job::Placement& placement, job::Stream stream,
                                      Worker& worker, Deadline deadline) {
  const bool no_files = layout.disabled() || unlogged_round == round.number;
  StreamPlan plan = plan_stream(job, placement.local_rank, stream, no_files, context.console.is_terminal(stream));
  if (plan.source == StreamPlan::Source::kInherit) return -1;
  if (plan.source == StreamPlan::Source::kNull) return null_fd();
  auto& opened = worker.streams[static_cast<int>(stream)];
  // Raw, a worker's two streams are one text; as lines each keeps its own.
  const void* writer = plan.style == StreamPlan::Style::kRaw ? static_cast<const void*>(&worker) : &opened;
  opened = std::make_unique<WorkerStream>(context, stream_options(round, placement, stream, plan, writer));
  auto result = opened->open(deadline);
  if (!result && result.error().kind == ErrorKind::kTimeout && plan.file) {
    go_on_without_files(round.number, result.error());
    opened.reset();
    return open_stream(round, placement, stream, worker, deadline);
  }
  if (!result) return result.error();
  return opened->child_fd();
}

// Each further file could take as long.
void Output::Impl::go_on_without_files(int round, const Error& why) {
  unlogged_round = round;
  context.console.log().warn("no more log files in this round: {}", why.text());
}

Result<void> Output::Impl::open_stdin(const job::Placement& placement, Worker& worker, WorkerStdio& stdio) {
  switch (job.stdin_spec.kind) {
    case job::StdinSpec::Kind::kNone:
      return {};
    case job::StdinSpec::Kind::kRank:
      if (!has_stdin(placement)) return {};
      [[fallthrough]];
    case job::StdinSpec::Kind::kInherit:
      stdio.stdin_fd = STDIN_FILENO;
      stdio.stdin_null = false;
      return {};
    case job::StdinSpec::Kind::kAll: {
      if (!relay) relay = std::make_unique<StdinRelay>(context.loop, context.console.log(), STDIN_FILENO);
      MUSTER_TRY(worker.stdin_end, relay->add(placement.rank));
      stdio.stdin_fd = worker.stdin_end.get();
      stdio.stdin_null = false;
      return {};
    }
  }
  return {};
}

// As in torchrun the files exist as soon as the flag is given, whatever matches.
Result<void> Output::Impl::open_filters(int round, Deadline deadline) {
  if (std::exchange(filters_round, round) == round || layout.disabled()) return {};
  for (job::Stream stream : kStreams) {
    const auto& filters = stream == job::Stream::kStdout ? job.output.stdout_filters : job.output.stderr_filters;
    if (filters.empty()) continue;
    std::string path = layout.filtered_file(round, stream);
    auto file = context.files.create(path, log_cap(), deadline);
    if (!file && file.error().kind == ErrorKind::kTimeout) {
      go_on_without_files(round, file.error());
      return {};
    }
    if (!file) return file.error();
    context.filtered[static_cast<int>(stream)] = std::make_shared<FilteredLog>(path, *std::move(file), filters);
  }
  return {};
}

Output::Output(net::EventLoop& loop, Console& console, const job::JobSpec& job, const LogLayout& layout)
    : impl_(std::make_unique<Impl>(loop, console, job, layout)) {
  bool own_directory = !layout.disabled() && !job.output.log_dir.empty();
  console.set_spool(own_directory ? layout.run_dir() : std::string(), job.output.cap);
  auto resume = [impl = impl_.get()] {
    for (auto& [local_rank, worker] : impl->workers) {
      for (auto& stream : worker.streams) {
        if (stream) stream->resume();
      }
    }
  };
  console.on_room(resume);
  impl_->context.files.on_room = resume;
}

Output::~Output() {
  impl_->context.console.on_room(nullptr);
  impl_->context.console.on_idle(nullptr);
}

void Output::set_patience(Duration patience) { impl_->patience = patience; }

Result<WorkerStdio> Output::open(const job::Round& round, const job::Placement& placement) {
  drain(placement.local_rank);
  for (auto& stream : impl_->workers[placement.local_rank].streams) {
    if (stream) impl_->dropped_before += stream->dropped_lines();
    stream.reset();
  }
  const Deadline deadline = Deadline::in(impl_->patience);
  MUSTER_TRY_VOID(impl_->open_filters(round.number, deadline));
  Impl::Worker& worker = impl_->workers[placement.local_rank];
  WorkerStdio stdio;
  MUSTER_TRY(stdio.stdout_fd, impl_->open_stream(round, placement, job::Stream::kStdout, worker, deadline));
  MUSTER_TRY(stdio.stderr_fd, impl_->open_stream(round, placement, job::Stream::kStderr, worker, deadline));
  MUSTER_TRY_VOID(impl_->open_stdin(placement, worker, stdio));
  return stdio;
}

void Output::child_started(int local_rank) {
  Impl::Worker& worker = impl_->workers[local_rank];
  for (auto& stream : worker.streams) {
    if (stream) stream->close_child_end();
  }
  worker.stdin_end.reset();
}

void Output::catch_up() {
  for (auto& [local_rank, worker] : impl_->workers)
    if (auto& stream = worker.streams[static_cast<int>(job::Stream::kStderr)]) stream->catch_up();
}

void Output::drain(int local_rank) {
  auto found = impl_->workers.find(local_rank);
  if (found == impl_->workers.end()) return;
  for (auto& stream : found->second.streams) {
    if (stream) stream->drain();
  }
}

StderrDigest Output::digest(int local_rank) const {
  auto found = impl_->workers.find(local_rank);
  if (found == impl_->workers.end()) return {};
  const auto& stream = found->second.streams[static_cast<int>(job::Stream::kStderr)];
  return stream ? stream->digest() : StderrDigest{};
}

std::string Output::log_file(int local_rank, job::Stream stream) const {
  auto found = impl_->workers.find(local_rank);
  if (found == impl_->workers.end()) return {};
  const auto& opened = found->second.streams[static_cast<int>(stream)];
  return opened ? opened->log_path() : std::string();
}

void Output::close_filtered() {
  for (auto& log : impl_->context.filtered) log.reset();
}

bool Output::files_idle() const { return impl_->context.files.idle(); }
void Output::on_files_idle(std::function<void()> callback) { impl_->context.files.on_idle = std::move(callback); }
std::string Output::stuck_file(Duration lasting) const { return impl_->context.files.stuck_file(lasting); }

uint64_t Output::dropped_lines() const {
  uint64_t lines = impl_->dropped_before + impl_->context.console.dropped_lines();
  for (const auto& [local_rank, worker] : impl_->workers) {
    for (const auto& stream : worker.streams) {
      if (stream) lines += stream->dropped_lines();
    }
  }
  return lines;
}

void Output::window_resized() {
  for (auto& [local_rank, worker] : impl_->workers) {
    for (auto& stream : worker.streams) {
      if (stream) stream->window_resized();
    }
  }
}

}  // namespace muster::output
