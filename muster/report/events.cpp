#include "muster/report/events.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "muster/base/detached_thread.h"
#include "muster/net/resolve.h"
#include "muster/report/python_json.h"

namespace muster::report {
namespace {

// What torchrun's agent says of a failure that left no error file. (There the traits may show on a signal's death as
// well: it shares one object among all failures.)
constexpr std::string_view kSilentExit =
    R"({"message": "<NONE>", "errorTraits": {"category": "system_terminated_error", "retryability": "False"}})";
constexpr auto kReaderPatience = std::chrono::seconds(2);  // at the end
constexpr auto kOpenPatience = std::chrono::seconds(5);    // with a file system, before the job begins
constexpr std::string_view kSilentSignal = R"({"message": "<NONE>"})";

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Python re-encodes the file; one that is no JSON is shown as it is.
std::string raw_error_text(const std::string& file) {
  auto json = parse_python_json(file);
  return json ? python_json(*json) : file;
}

}  // namespace

Result<EventsFile> EventsFile::open(const std::string& path) {
  struct Opened {
    Fd fd;
    int error;
  };
  auto opened = call_with_deadline<Opened>(Deadline::in(kOpenPatience), [path] {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    Fd fd(::open(path.c_str(), kFlags, 0666));
    const int error = errno;
    return Opened{std::move(fd), error};
  });
  const std::string failed = fmt::format("--events {} cannot be written", path);
  constexpr const char* kAnother = "give a file in a directory you may write to";
  if (!opened) return Error{ErrorKind::kUsage, failed + ": its file system does not respond", kAnother};
  EventsFile file;
  file.path_ = path;
  file.fd_ = std::move(opened->fd);
  struct stat status {};
  if (file.fd_ && ::fstat(file.fd_.get(), &status) == 0 && S_ISREG(status.st_mode)) {
    if (auto started = output::Appender::start(file.fd_.get()))
      file.appender_ = *std::move(started);  // else we write it
  }
  if (file.fd_) return file;
  if (opened->error == ENXIO)
    return Error{ErrorKind::kUsage, failed + ": it is a FIFO without a reader", "start its reader first"};
  return Error{ErrorKind::kUsage, system_error(opened->error, failed).message, kAnother};
}

void EventsFile::write(std::string_view lines, Log& log) {
  if (!fd_) return;
  if (waiting() + lines.size() > kMostWaiting) {
    dropped_ += static_cast<uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
  } else {
    waiting_ += lines;
  }
  write_some(log);
}

// A whole line is one write where its reader has room, so that readers never see half of one.
void EventsFile::write_some(Log& log) {
  if (appender_) return hand_over(log);
  while (!waiting_.empty()) {
    const ssize_t n = ::write(fd_.get(), waiting_.data(), waiting_.size());
    if (n >= 0) {
      waiting_.erase(0, static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      return fail(errno, log);
    }
  }
}

void EventsFile::hand_over(Log& log) {
  if (auto failure = appender_->take_failure()) return fail(failure->error, log);
  if (!waiting_.empty()) appender_->append(waiting_);
}

void EventsFile::fail(int error, Log& log) {
  log.warn("--events {}: write: {}; no more events are written", path_, std::strerror(error));
  appender_.reset();
  fd_.reset();
}

void EventsFile::finish(Deadline deadline, Log& log) {
  if (!fd_) return;
  const bool regular = appender_ != nullptr;
  if (regular && !appender_->wait(deadline))
    log.warn("--events {}: the last {} bytes are lost: its file system does not respond", path_, waiting());
  for (write_some(log); fd_ && !waiting_.empty(); write_some(log)) {
    pollfd writable{fd_.get(), POLLOUT, 0};
    if (::poll(&writable, 1, deadline.poll_timeout()) == 0) break;
  }
  dropped_ += static_cast<uint64_t>(std::count(waiting_.begin(), waiting_.end(), '\n'));
  if (dropped_ > 0)
    log.warn("--events {}: {} event{} dropped: its {}", path_, dropped_, dropped_ == 1 ? "" : "s",
             regular ? "file system does not respond" : "reader is too slow");
  appender_.reset();  // its thread has a descriptor of its own, and closes the file
  fd_.reset();
}

struct Events::Event {
  std::string_view state;
  int restart_count = 0;
  std::optional<Duration> took = {};
  const job::Placement* worker = nullptr;
  int pid = 0;
  std::optional<process::ExitStatus> failure = {};
  std::optional<std::string> raw_error = {};
  std::optional<Duration> total_run_time = {};
};

Result<Events> Events::open(const job::JobSpec& job, output::Console& console, Send send) {
  Events events;
  events.job_ = &job;
  events.console_ = &console;
  events.on_console_ = job.events_on_console;
  events.started_ = Clock::now();
  if (!job.events_file.empty() && send) {
    events.send_ = std::move(send);
  } else if (!job.events_file.empty()) {
    MUSTER_TRY(events.file_, EventsFile::open(job.events_file));
  }
  // Asked only when somebody wants to know: the resolver may take its time.
  if (events.enabled()) events.hostname_ = net::fully_qualified_hostname(Deadline::in(net::kOwnNameTime));
  return events;
}

void Events::record(const Event& event) {
  const job::Placement* worker = event.worker;
  Json inner = {{"group_world_size", group_ ? Json(group_->world_size) : Json()},
                {"entry_point", base_name(job_->command.program)}};
  if (worker != nullptr) {
    inner["local_rank"] = Json::array({worker->local_rank});
    inner["role_rank"] = Json::array({worker->role_rank});
    inner["role_world_size"] = Json::array({worker->role_world_size});
    inner["exit_code"] = Json::array({event.failure ? Json(event.failure->popen_code()) : Json()});
    inner["worker_pid"] = Json::array({event.failure ? Json(event.pid) : Json()});
  }
  using Milliseconds = std::chrono::duration<double, std::milli>;
  auto run_time = std::chrono::duration_cast<std::chrono::seconds>(event.total_run_time.value_or(Duration::zero()));
  Json metadata = {{"run_id", job_->run_id},
                   {"global_rank", worker != nullptr ? Json(worker->rank) : Json()},
                   {"group_rank", group_ ? Json(group_->rank) : Json()},
                   {"worker_id", worker != nullptr ? Json(std::to_string(event.pid)) : Json()},
                   {"role", job_->role},
                   {"hostname", hostname_},
                   {"state", event.state},
                   {"total_run_time", run_time.count()},
                   {"rdzv_backend", job_->rdzv_backend},
                   {"raw_error", event.raw_error ? Json(*event.raw_error) : Json()},
                   {"metadata", python_json(inner)},
                   {"agent_restarts", event.restart_count},
                   {"duration_ms", event.took ? Json(Milliseconds(*event.took).count()) : Json()}};
  // torchrun leaves the time at 0; a log without times helps nobody.
  auto now = std::chrono::system_clock::now().time_since_epoch();
  int64_t timestamp =
      job_->flavor == job::Flavor::kMuster ? std::chrono::floor<std::chrono::milliseconds>(now).count() : 0;
  Json json = {{"name", fmt::format("torchelastic.worker.status.{}", event.state)},
               {"source", worker != nullptr ? "WORKER" : "AGENT"},
               {"timestamp", timestamp},
               {"metadata", metadata}};
  std::string line = python_json(json) + "\n";
  if (on_console_) console_->write(job::Stream::kStderr, line);
  if (send_) send_(line);
  file_.write(line, console_->log());
}

void Events::rendezvous(Duration took, int restart_count) {
  if (enabled()) record({.state = "RENDEZVOUS", .restart_count = restart_count, .took = took});
}

void Events::ranks_assigned(Duration took, const job::Round& round) {
  if (enabled()) record({.state = "ASSIGN_WORKER_RANKS", .restart_count = round.restarts, .took = took});
  group_ = {round.group_rank, round.group_world_size};
}

void Events::worker_started(const job::Placement& placement, int pid, int restart_count) {
  if (enabled()) record({.state = "START", .restart_count = restart_count, .worker = &placement, .pid = pid});
}

void Events::worker_ended(const job::Placement& placement, int pid, process::ExitStatus status,
                          const std::string& raw_error, int restart_count, bool job_failed) {
  if (!enabled()) return;
  Event event{.state = job_failed ? "TERMINATED" : "SUCCEEDED",
              .restart_count = restart_count,
              .worker = &placement,
              .pid = pid,
              .total_run_time = Clock::now() - started_};
  if (!status.success()) {
    event.state = "FAILED";
    event.failure = status;
    event.raw_error =
        !raw_error.empty() ? raw_error_text(raw_error) : std::string(status.signal != 0 ? kSilentSignal : kSilentExit);
  }
  record(event);
}

void Events::agent_ended(const std::string& exception, int restart_count) {
  if (!enabled()) return;
  Event event{.state = exception.empty() ? "SUCCEEDED" : "FAILED", .restart_count = restart_count};
  if (!exception.empty()) event.raw_error = exception;
  event.total_run_time = Clock::now() - started_;
  record(event);
  file_.finish(Deadline::in(kReaderPatience), console_->log());
}

}  // namespace muster::report
