#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "muster/base/clock.h"
#include "muster/base/fd.h"
#include "muster/base/log.h"
#include "muster/base/socket_directory.h"
#include "muster/base/usage_error.h"
#include "muster/cli/commands.h"
#include "muster/cli/status_text.h"

namespace muster::cli {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;
constexpr auto kAnswerTime = std::chrono::seconds(5);
constexpr int kUnknownJob = 1;

std::vector<std::string> sockets_in(const std::string& directory) {
  std::vector<std::string> names;
  DIR* opened = ::opendir(directory.c_str());
  if (opened == nullptr) return names;
  for (dirent* entry = ::readdir(opened); entry != nullptr; entry = ::readdir(opened))
    if (std::string_view(entry->d_name).ends_with(".sock")) names.emplace_back(entry->d_name);
  ::closedir(opened);
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> read_to_end(int socket, Deadline deadline) {
  std::string text;
  while (text.size() < kMostBytes) {
    pollfd waiting{.fd = socket, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, deadline.poll_timeout()) == 0)
      return Error{ErrorKind::kTimeout, "the job does not answer", {}};
    char bytes[65536];
    const ssize_t size = ::recv(socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (size == 0) return text;
    if (size > 0) text.append(bytes, static_cast<size_t>(size));
    if (size < 0 && errno != EAGAIN && errno != EINTR) return system_error(errno, "recv");
  }
  return Error{ErrorKind::kPeer, "the answer is incomplete", {}};
}

// The status of the job behind a socket; nothing if the job is gone. A job that was killed leaves its socket.
Result<std::optional<std::string>> ask(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return usage_error("{} is too long for a socket", path);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return system_error(errno, "socket");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int why = errno;
    if (why == ECONNREFUSED) ::unlink(path.c_str());
    if (why == ECONNREFUSED || why == ENOENT) return std::optional<std::string>();
    return system_error(why, "connect");
  }
  MUSTER_TRY(std::string text, read_to_end(socket.get(), Deadline::in(kAnswerTime)));
  return std::optional(std::move(text));
}

struct Job {
  JobNames names;
  std::string document;
};

std::vector<Job> running_jobs(Log& log) {
  std::vector<Job> jobs;
  for (const std::string& directory : socket_directories()) {
    if (::access(directory.c_str(), F_OK) != 0) continue;
    if (auto good = check_socket_directory(directory); !good) {
      log.warn("{}", good.error().text());
      continue;
    }
    for (const std::string& name : sockets_in(directory)) {
      const std::string path = fmt::format("{}/{}", directory, name);
      auto document = ask(path);
      if (document && !*document) continue;
      auto names = document ? job_names(**document) : Result<JobNames>(document.error());
      if (names) {
        jobs.push_back({*names, **document});
      } else {
        log.warn("{}: {}", path, names.error().text());
      }
    }
  }
  return jobs;
}

}  // namespace

int status_command(const Parsed& parsed) {
  Log log = Log::to_stderr();
  std::vector<Job> jobs = running_jobs(log);
  const bool json = parsed.flag(Opt::kJson);
  const bool one = !parsed.words.empty();
  if (one) {
    const std::string& wanted = parsed.words[0];
    std::string list;
    for (const Job& job : jobs) list += fmt::format("{}{}", list.empty() ? "" : ", ", job.names.job);
    std::erase_if(jobs, [&](const Job& job) { return !is_named(job.names, wanted); });
    if (jobs.empty()) {
      log.error("there is no job '{}'; {}", wanted, list.empty() ? "no job runs here" : "running jobs: " + list);
      return kUnknownJob;
    }
  }
  if (json) {
    std::vector<std::string> documents;
    documents.reserve(jobs.size());
    for (Job& job : jobs) documents.push_back(std::move(job.document));
    return print(status_json(documents));
  }
  if (jobs.empty()) return print("no job runs here\n");
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::string text;
  for (const Job& job : jobs) text += (text.empty() ? "" : "\n") + status_text(job.document, now);
  return print(text);
}

}  // namespace muster::cli
