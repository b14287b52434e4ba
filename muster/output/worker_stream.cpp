#include "muster/output/worker_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "muster/base/strings.h"
#include "muster/process/pty.h"

namespace muster::output {
namespace {

constexpr size_t kBusyRead = 32 << 10;   // half a default pipe: one written in large pieces never fills it to the brim
constexpr int kLargePipe = 256 << 10;    // of a stream that brought that much at once
constexpr size_t kDrainLimit = 2 << 20;  // more than a pipe or pty holds: somebody is still writing
constexpr Duration kPromptPause = std::chrono::milliseconds(50);

}  // namespace

void FilteredLog::take(std::string_view lines, TimePoint now) {
  std::string chosen;
  while (!lines.empty()) {
    std::string_view line = lines.substr(0, lines.find('\n') + 1);
    if (line.empty()) line = lines;
    bool wanted = std::any_of(filters.begin(), filters.end(),
                              [&](const std::string& filter) { return line.find(filter) != std::string_view::npos; });
    if (wanted) chosen += line;
    lines.remove_prefix(line.size());
  }
  if (!chosen.empty()) file.append(chosen, now);
}

WorkerStream::WorkerStream(StreamContext& context, Options options)
    : context_(context), options_(std::move(options)), splitter_(options_.plan.style, options_.label) {}

WorkerStream::~WorkerStream() {
  if (source_) context_.loop.unwatch(source_.get());
  context_.loop.cancel(prompt_timer_);
  if (context_.live_owner == this) context_.live_owner = nullptr;
}

Result<void> WorkerStream::open(Deadline deadline) {
  if (options_.plan.file) {
    MUSTER_TRY(file_, context_.files.create(options_.log_path, options_.cap, deadline));
  }
  MUSTER_TRY_VOID(open_source());
  if (source_) context_.loop.watch(source_.get(), EPOLLIN, [this](uint32_t) { on_readable(); });
  return {};
}

Result<void> WorkerStream::open_source() {
  if (options_.plan.source == StreamPlan::Source::kPty) {
    auto pty = process::open_pty(options_.stream == job::Stream::kStdout ? STDOUT_FILENO : STDERR_FILENO);
    if (pty) {
      source_ = std::move(pty->master);
      child_end_ = std::move(pty->slave);
      window_resized();
      return {};
    }
    // A machine that has no pseudo-terminal to spare still runs jobs.
    context_.console.log().debug("{}: no pseudo-terminal ({}); a pipe instead", options_.name, pty.error().message);
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error(errno, "pipe for " + options_.name);
  source_.reset(ends[0]);
  child_end_.reset(ends[1]);
  return set_nonblocking(source_.get(), true);
}

void WorkerStream::on_readable() {
  const bool console_is_full = options_.plan.console && !context_.console.has_room(options_.stream);
  if (console_is_full || !file_.has_room(context_.loop.now())) {
    held_ = true;
    // Edge-triggered and for nothing: a hang-up, which cannot be masked, is reported once and not for ever.
    context_.loop.rearm(source_.get(), EPOLLET);
    return;
  }
  if (!read_once()) end();
}

std::optional<size_t> WorkerStream::read_once() {
  ssize_t n = ::read(source_.get(), context_.buffer.get(), StreamContext::kReadSize);
  if (n < 0) {
    if (errno == EAGAIN || errno == EINTR) return 0;
    return std::nullopt;  // EIO: nobody has the pty open any more
  }
  if (n == 0) return std::nullopt;
  auto size = static_cast<size_t>(n);
  if (size >= kBusyRead && !std::exchange(enlarged_, true)) ::fcntl(source_.get(), F_SETPIPE_SZ, kLargePipe);
  take({context_.buffer.get(), size});
  return size;
}

void WorkerStream::take(std::string_view bytes) {
  TimePoint now = context_.loop.now();
  if (file_) {
    file_.append(bytes, now);
    if (file_.dropping()) say_dropped();
  }
  if (options_.stream == job::Stream::kStderr) digest_.feed(bytes, now);
  if (options_.plan.console) show(bytes);
}

void WorkerStream::show(std::string_view bytes) {
  Console& console = context_.console;
  if (!console.line_open_by(options_.stream, options_.writer)) splitter_.reopen();
  std::string& out = console.begin(options_.stream, options_.writer);
  size_t before = out.size();
  splitter_.feed(bytes, out);
  if (options_.plan.filtered) filter(std::string_view(out).substr(before));
  if (options_.progress_period) sample_progress(out, out.size() > before);
  console.commit(options_.stream);
  if (options_.shows_progress) show_progress();
  if (options_.prompts) wait_for_prompt();
}

void WorkerStream::filter(std::string_view lines) {
  FilteredLog& log = *context_.filtered[static_cast<int>(options_.stream)];
  log.take(lines, context_.loop.now());
  if (log.file.dropping() && !std::exchange(log.dropping_said, true)) {
    context_.console.log().warn("lines are being dropped: {} {}", log.path, log.file.reason());
  }
}

void WorkerStream::show_progress() {
  std::string_view progress = splitter_.progress();
  if (!progress.empty()) {
    context_.console.set_live_line(splitter_.label() + std::string(progress));
    context_.live_owner = this;
  } else if (context_.live_owner == this) {
    context_.console.set_live_line({});
    context_.live_owner = nullptr;
  }
}

// Whoever reads a file sees that a long epoch goes on; most states of its bar are left out.
void WorkerStream::sample_progress(std::string& out, bool lines_shown) {
  const TimePoint now = context_.loop.now();
  if (lines_shown || !lines_shown_) lines_shown_ = now;
  if (lines_shown || trim(splitter_.progress()).empty() || now - *lines_shown_ < *options_.progress_period) return;
  lines_shown_ = now;
  out += splitter_.label();
  out += splitter_.progress();
  out += '\n';
}

void WorkerStream::wait_for_prompt() {
  context_.loop.cancel(prompt_timer_);
  if (!splitter_.has_partial() || !splitter_.progress().empty()) return;
  prompt_timer_ = context_.loop.call_after(kPromptPause, [this] { show_prompt(); });
}

void WorkerStream::show_prompt() {
  Console& console = context_.console;
  if (!console.line_open_by(options_.stream, options_.writer)) splitter_.reopen();
  splitter_.flush_partial(console.begin(options_.stream, options_.writer));
  console.commit(options_.stream);
}

void WorkerStream::say_dropped() {
  if (std::exchange(dropping_said_, true)) return;
  context_.console.log().warn("{}: lines are being dropped: {} {}", options_.name, options_.log_path, file_.reason());
}

void WorkerStream::resume() {
  if (file_ && file_.dropping()) say_dropped();
  if (!std::exchange(held_, false) || !source_) return;
  context_.loop.rearm(source_.get(), EPOLLIN);
}

void WorkerStream::catch_up() {
  size_t total = 0;
  while (source_ && total < kDrainLimit) {
    auto size = read_once();
    if (!size || *size == 0) break;
    total += *size;
  }
}

void WorkerStream::drain() {
  catch_up();
  if (source_) end();
}

void WorkerStream::end() {
  context_.loop.unwatch(source_.get());
  source_.reset();
  held_ = false;
  context_.loop.cancel(prompt_timer_);
  if (options_.plan.console) {
    Console& console = context_.console;
    if (!console.line_open_by(options_.stream, options_.writer)) splitter_.reopen();
    std::string& out = console.begin(options_.stream, options_.writer);
    size_t before = out.size();
    splitter_.finish(out);
    if (options_.plan.filtered) filter(std::string_view(out).substr(before));
    console.commit(options_.stream);
    if (options_.plan.style != StreamPlan::Style::kRaw) console.disown_line(options_.stream, options_.writer);
    show_progress();
  }
  dropping_said_ = true;  // close() tells their number
  file_.close([&log = context_.console.log(), name = options_.name, path = options_.log_path](
                  uint64_t dropped, const std::string& reason) {
    if (dropped > 0) log.warn("{}: {} line{} dropped: {} {}", name, dropped, dropped == 1 ? "" : "s", path, reason);
  });
}

void WorkerStream::window_resized() {
  if (options_.plan.source != StreamPlan::Source::kPty || !source_) return;
  // The label stands in front of whatever a worker writes.
  const size_t label = count_characters(options_.label);
  if (const int columns = context_.console.columns(options_.stream); columns > 0) {
    const int rest = columns - static_cast<int>(label);
    return process::set_columns(source_.get(), rest > 0 ? rest : columns);
  }
  process::copy_window_size(options_.stream == job::Stream::kStdout ? STDOUT_FILENO : STDERR_FILENO, source_.get(),
                            label);
}

}  // namespace muster::output
