#include "muster/output/log_layout.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "muster/base/environment.h"
#include "muster/base/random.h"

namespace muster::output {
namespace {

// <prefix><8 random characters>, mode 0700, as Python's tempfile.mkdtemp names it.
Result<std::string> make_unique_directory(const std::string& prefix) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_";
  for (int tries = 0; tries < 100; ++tries) {
    unsigned char random[8];
    fill_random(random);
    std::string path = prefix;
    for (unsigned char byte : random) path += kLetters[byte % kLetters.size()];
    if (::mkdir(path.c_str(), 0700) == 0) return path;
    if (errno != EEXIST) return system_error(errno, fmt::format("cannot create the directory {}", path));
  }
  return system_error(EEXIST, fmt::format("cannot create a directory {}*", prefix));
}

Error as_usage(Error error, std::string hint) {
  error.kind = ErrorKind::kUsage;
  error.hint = std::move(hint);
  return error;
}

Result<void> make_base(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  struct stat status {};
  if (::stat(directory.c_str(), &status) == 0 && !S_ISDIR(status.st_mode)) {
    return Error{ErrorKind::kUsage, fmt::format("--log-dir {}: it is a file, not a directory", directory),
                 "name a directory, which need not exist"};
  }
  if (error) {
    return as_usage(system_error(error.value(), fmt::format("--log-dir {}: cannot be created", directory)),
                    "name a directory you may write to");
  }
  return {};
}

// The user that a directory made there now belongs to: not always this one, on a network file system.
uid_t owner_of_new_directory(const std::string& beside) {
  struct stat status {};
  auto probe = make_unique_directory(beside + "_");
  if (!probe || ::lstat(probe->c_str(), &status) != 0) status.st_uid = ::geteuid();
  if (probe) ::rmdir(probe->c_str());
  return status.st_uid;
}

// One that is there already must be this user's, and no link: another user may have put it there. Returns what to tell
// the user about it, mostly nothing.
Result<std::string> make_own_directory(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0) return std::string();
  struct stat status {};
  if (errno != EEXIST || ::lstat(path.c_str(), &status) != 0)
    return system_error(errno, fmt::format("cannot create the log directory {}", path));
  if (!S_ISDIR(status.st_mode))
    return Error{ErrorKind::kSystem, fmt::format("the log directory {} is a link or a file", path),
                 "remove it, or name another directory with --log-dir"};
  if (status.st_uid != ::geteuid() && status.st_uid != owner_of_new_directory(path))
    return Error{ErrorKind::kSystem, fmt::format("the log directory {} belongs to another user", path),
                 "name another directory with --log-dir"};
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return std::string();
  if (::chmod(path.c_str(), status.st_mode & ~(S_IWGRP | S_IWOTH)) == 0) return std::string();
  return fmt::format(
      "other users can write to {}, and muster cannot change its mode: {}; name another directory with "
      "--log-dir",
      path, system_error(errno, "chmod").message);
}

// Names at most one: all users, else the owner, else the group. A user's own group counts as private.
std::string warning_about(const std::string& base) {
  struct stat status {};
  if (::stat(base.c_str(), &status) != 0) return {};
  constexpr std::string_view kCan = "can rename or remove what is in it";
  const bool sticky = (status.st_mode & S_ISVTX) != 0;
  if ((status.st_mode & S_IWOTH) != 0 && !sticky)
    return fmt::format("--log-dir {}: every user of this machine {}; chmod o-w {}", base, kCan, base);
  const uid_t owner = status.st_uid;
  if (owner != ::geteuid() && owner != 0 && owner != owner_of_new_directory(base + "/.owner"))
    return fmt::format("--log-dir {}: its owner, the user with id {}, {}; name a directory of your own", base, owner,
                       kCan);
  if ((status.st_mode & S_IWGRP) != 0 && !sticky && status.st_gid != ::getegid())
    return fmt::format("--log-dir {}: all members of the group with id {} {}{}", base, status.st_gid, kCan,
                       owner == ::geteuid() ? fmt::format("; chmod +t {}", base) : "");
  return {};
}

std::string file_name(job::Stream stream) { return stream == job::Stream::kStdout ? "stdout.log" : "stderr.log"; }

bool asks_for_files(const job::OutputSpec& output) {
  for (const auto* masks : {&output.redirects, &output.tee}) {
    for (auto [rank, mask] : *masks) {
      if (mask != 0) return true;
    }
  }
  return !output.stdout_filters.empty() || !output.stderr_filters.empty();
}

}  // namespace

Result<LogLayout> LogLayout::create(const job::JobSpec& job) {
  LogLayout layout;
  const std::string& given = job.output.log_dir;
  layout.disabled_ = given == "/dev/null";
  if (layout.disabled_) return layout;
  bool muster = job.flavor == job::Flavor::kMuster;
  if (given.empty()) {
    std::string root = temporary_directory();
    auto base = make_unique_directory(root + (muster ? "/muster_" : "/torchelastic_"));
    if (!base) return as_usage(base.error(), "set TMPDIR to a directory you may write to");
    layout.base_ = *base;
    layout.own_base_ = true;
    layout.temporary_ = !asks_for_files(job.output);
    layout.flat_ = muster && layout.temporary_;
    if (layout.flat_) {
      layout.run_dir_ = layout.base_;
      return layout;
    }
  } else {
    MUSTER_TRY_VOID(make_base(given));
    layout.base_ = given;
    layout.warning_ = warning_about(given);
    layout.linked_ = muster;
  }
  layout.run_id_ = job.run_id;
  if (muster && !job.run_id.starts_with(job.scheduler_job)) layout.run_id_ = job.scheduler_job + "_" + job.run_id;
  for (char& c : layout.run_id_) c = c == '/' ? '_' : c;
  if (muster && job.membership) {
    layout.shared_ = true;
    layout.host_ = job.host;
    for (char& c : layout.host_) c = c == '/' ? '_' : c;
    return layout;
  }
  auto run_dir = make_unique_directory(fmt::format("{}/{}_", layout.base_, layout.run_id_));
  if (!run_dir) return as_usage(run_dir.error(), "name a directory you may write to with --log-dir");
  layout.run_dir_ = *run_dir;
  layout.link_latest();
  return layout;
}

Result<void> LogLayout::join_job(const std::string& job_id) {
  if (!shared_) return {};
  run_dir_ = fmt::format("{}/{}_{}", base_, run_id_, job_id);
  auto made = make_run_dir();
  if (made) return {};
  return as_usage(made.error(), "name a directory you may write to with --log-dir");
}

Result<void> LogLayout::make_own(const std::string& path, mode_t mode) {
  MUSTER_TRY(std::string note, make_own_directory(path, mode));
  if (!exposed_ && !note.empty()) exposed_ = std::move(note);
  return {};
}

Result<void> LogLayout::make_run_dir() {
  MUSTER_TRY_VOID(make_own(run_dir_, 0700));
  link_latest();
  return {};
}

// Several nodes may do this at once: each makes a link of its own, and the name has always one of them. A `latest` that
// is not a link is the user's. A file system without links has none.
void LogLayout::link_latest() const {
  if (!linked_) return;
  const std::string latest = base_ + "/latest";
  const std::string name = run_dir_.substr(run_dir_.rfind('/') + 1);
  std::error_code error;
  const auto kind = std::filesystem::symlink_status(latest, error).type();
  if (kind == std::filesystem::file_type::symlink) {
    if (std::filesystem::read_symlink(latest, error) == name) return;
  } else if (kind != std::filesystem::file_type::not_found) {
    return;
  }
  const std::string draft = fmt::format("{}/.latest_{}", base_, random_uuid());
  if (::symlink(name.c_str(), draft.c_str()) != 0) return;
  if (::rename(draft.c_str(), latest.c_str()) != 0) ::unlink(draft.c_str());
}

std::string LogLayout::attempt_dir(int round) const {
  if (shared_) return fmt::format("{}/r{}/{}", run_dir_, round, host_);
  return fmt::format("{}/attempt_{}", run_dir_, round);
}

std::string LogLayout::worker_dir(int round, int local_rank) const {
  return fmt::format("{}/{}", attempt_dir(round), local_rank);
}

std::string LogLayout::stream_file(int round, int local_rank, job::Stream stream) const {
  if (shared_)
    return fmt::format("{}/{}.{}", attempt_dir(round), first_rank_ + local_rank,
                       stream == job::Stream::kStdout ? "out" : "err");
  return fmt::format("{}/{}", worker_dir(round, local_rank), file_name(stream));
}

std::string LogLayout::error_file(int round, int local_rank) const {
  if (disabled()) return {};
  if (flat_) return fmt::format("{}/attempt_{}_{}_error.json", run_dir_, round, local_rank);
  if (shared_) return fmt::format("{}/{}.error.json", attempt_dir(round), first_rank_ + local_rank);
  return worker_dir(round, local_rank) + "/error.json";
}

std::string LogLayout::filtered_file(int round, job::Stream stream) const {
  return fmt::format("{}/filtered_{}", attempt_dir(round), file_name(stream));
}

Result<std::string> LogLayout::make_attempt(int round, int workers, int first_rank) {
  first_rank_ = first_rank;
  if (disabled()) return std::string();
  const bool removed = made_ && ::access(run_dir_.c_str(), F_OK) != 0;
  auto made = removed ? make_again() : Result<void>();
  if (made) made = make_directories(round, workers);
  if (!made && !removed) return made.error();
  made_ = true;
  disabled_ = !made;
  if (disabled_) return fmt::format("no log files from now on: {}", made.error().text());
  if (!removed || temporary_) return exposed_ ? std::exchange(*exposed_, "") : std::string();
  return fmt::format(
      "the log directory {} was removed during the run: it was made again, logs of earlier rounds are lost", run_dir_);
}

Result<void> LogLayout::make_again() {
  MUSTER_TRY_VOID(own_base_ ? make_own(base_, 0700) : make_base(base_));
  return flat_ ? Result<void>() : make_run_dir();
}

Result<void> LogLayout::make_directories(int round, int workers) {
  if (flat_) return {};
  if (shared_) MUSTER_TRY_VOID(make_own(fmt::format("{}/r{}", run_dir_, round), 0777));
  MUSTER_TRY_VOID(make_own(attempt_dir(round), 0777));
  for (int local_rank = 0; local_rank < workers && !shared_; ++local_rank)
    MUSTER_TRY_VOID(make_own(worker_dir(round, local_rank), 0777));
  return {};
}

void LogLayout::remove_if_temporary(bool keep_error_files) const {
  if (!temporary_ || base_.empty()) return;
  if (flat_ && ::rmdir(base_.c_str()) == 0) return;  // nearly always: nobody wrote an error file
  if (keep_error_files) return remove_empty_directories(base_);
  std::error_code ignored;
  std::filesystem::remove_all(base_, ignored);
}

void remove_empty_directories(const std::string& directory) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->symlink_status(ignored).type() == std::filesystem::file_type::directory) {
      remove_empty_directories(it->path().string());
    }
  }
  ::rmdir(directory.c_str());  // refused while there is anything in it
}

}  // namespace muster::output
