#include "muster/agent/log_directories.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "muster/base/detached_thread.h"

namespace muster::agent {
namespace {

// For the base directory, before there is a lease: an automounter may have to mount it first.
constexpr Duration kLogDirTime = std::chrono::seconds(10);
// To see at the end that it is still there.
constexpr Duration kLastLookTime = std::chrono::seconds(1);

// A layout that a thread has changed, and what came of it.
template <typename T>
struct Changed {
  output::LogLayout layout;
  Result<T> result;
};

}  // namespace

Result<LogDirectories> LogDirectories::create(const job::JobSpec& job) {
  if (job.output.log_dir.empty()) {
    MUSTER_TRY(output::LogLayout layout, output::LogLayout::create(job));
    return LogDirectories(std::move(layout), job.output.log_dir);
  }
  auto created = call_with_deadline<Result<output::LogLayout>>(Deadline::in(kLogDirTime),
                                                               [job] { return output::LogLayout::create(job); });
  if (!created)
    return Error{ErrorKind::kTimeout,
                 fmt::format("cannot use the log directory {}: its file system does not respond", job.output.log_dir),
                 "name another directory with --log-dir"};
  MUSTER_TRY(output::LogLayout layout, *std::move(created));
  return LogDirectories(std::move(layout), job.output.log_dir);
}

Result<void> LogDirectories::join_job(const std::string& id, Duration patience, Log& log) {
  if (!layout_.is_shared()) return {};
  auto joined = call_with_deadline<Changed<void>>(Deadline::in(patience), [layout = layout_, id]() mutable {
    auto result = layout.join_job(id);
    return Changed<void>{std::move(layout), std::move(result)};
  });
  if (!joined) {
    go_on_without(base_, log);
    return {};
  }
  layout_ = std::move(joined->layout);
  return std::move(joined->result);
}

Result<void> LogDirectories::make_attempt(const job::Round& round, int workers, Duration patience, Log& log) {
  auto made = call_with_deadline<Changed<std::string>>(
      Deadline::in(patience), [layout = layout_, number = round.number, workers, first = round.first_rank]() mutable {
        auto note = layout.make_attempt(number, workers, first);
        return Changed<std::string>{std::move(layout), std::move(note)};
      });
  if (!made) {
    go_on_without(layout_.run_dir(), log);
    return {};
  }
  layout_ = std::move(made->layout);
  MUSTER_TRY(std::string note, std::move(made->result));
  if (!note.empty()) log.warn("{}", note);
  return {};
}

void LogDirectories::go_on_without(const std::string& directory, Log& log) {
  layout_.disable();
  log.warn("no log files from now on: {} is on a file system that does not respond", directory);
}

void LogDirectories::say_where(bool on_every_node, Log& log) const {
  if (layout_.disabled()) return;
  // If the file system does not respond, nothing is known to be missing.
  auto there = call_with_deadline<bool>(Deadline::in(kLastLookTime), [path = layout_.run_dir()] {
    return ::access(path.c_str(), F_OK) == 0 || errno != ENOENT;
  });
  if (!there.value_or(true)) return log.warn("logs: none, {} was removed during the run", layout_.run_dir());
  log.info("logs: {}{}", layout_.run_dir(), on_every_node ? " on every node" : "");
}

}  // namespace muster::agent
