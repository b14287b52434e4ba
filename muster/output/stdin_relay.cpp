#include "muster/output/stdin_relay.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "muster/output/capped_file.h"

namespace muster::output {
namespace {

constexpr size_t kChunk = 64 << 10;

}  // namespace

StdinRelay::StdinRelay(net::EventLoop& loop, Log& log, int source) : loop_(loop), log_(log), source_(source) {
  open_source(source);
}

StdinRelay::~StdinRelay() {
  if (watching_ && kind_ != Kind::kFile) loop_.unwatch(source_);
  for (auto& [rank, reader] : readers_) loop_.unwatch(reader.pipe.get());
}

void StdinRelay::open_source(int source) {
  struct stat status {};
  if (::fstat(source, &status) != 0) {
    ended_ = true;
  } else if (S_ISSOCK(status.st_mode)) {
    kind_ = Kind::kSocket;
  } else if (S_ISFIFO(status.st_mode) || ::isatty(source) == 1) {
    kind_ = Kind::kPollable;
    std::string path = fmt::format("/proc/self/fd/{}", source);
    own_.reset(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (own_) source_ = own_.get();
  }
}

Result<Fd> StdinRelay::add(int rank) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error(errno, "pipe for a worker's stdin");
  Fd for_worker(ends[0]);
  Fd ours(ends[1]);
  if (ended_) return for_worker;  // it reads the end at once
  MUSTER_TRY_VOID(set_nonblocking(ours.get(), true));
  remove(rank);
  readers_[rank] = Reader{std::move(ours), {}};
  update_watch();
  return for_worker;
}

void StdinRelay::remove(int rank) {
  close_reader(rank);
  update_watch();
}

void StdinRelay::close_reader(int rank) {
  auto found = readers_.find(rank);
  if (found == readers_.end()) return;
  loop_.unwatch(found->second.pipe.get());
  readers_.erase(found);
}

bool StdinRelay::somebody_waits() const {
  return std::any_of(readers_.begin(), readers_.end(),
                     [](const auto& entry) { return entry.second.pending.size() < kChunk; });
}

void StdinRelay::update_watch() {
  bool wanted = !ended_ && somebody_waits();
  if (wanted == watching_) return;
  watching_ = wanted;
  if (kind_ != Kind::kFile) {
    if (!wanted) {
      loop_.unwatch(source_);
    } else {
      loop_.watch(source_, EPOLLIN, [this](uint32_t) { read_source(); });
    }
  } else if (wanted) {  // a file is always ready and cannot be watched
    loop_.defer([this, alive = std::weak_ptr<bool>(alive_)] {
      if (alive.expired() || !std::exchange(watching_, false)) return;
      read_source();
      update_watch();
    });
  }
}

void StdinRelay::read_source() {
  char buffer[kChunk];
  ssize_t n = kind_ == Kind::kSocket ? ::recv(source_, buffer, sizeof buffer, MSG_DONTWAIT)
                                     : ::read(source_, buffer, sizeof buffer);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    source_ended();
    return;
  }
  std::vector<int> ranks;
  for (auto& [rank, reader] : readers_) {
    reader.pending.append(buffer, static_cast<size_t>(n));
    ranks.push_back(rank);
  }
  for (int rank : ranks) write_to(rank);
  update_watch();
}

void StdinRelay::source_ended() {
  ended_ = true;
  std::vector<int> done;
  for (auto& [rank, reader] : readers_) {
    if (reader.pending.empty()) done.push_back(rank);
  }
  for (int rank : done) close_reader(rank);
  update_watch();
}

void StdinRelay::write_to(int rank) {
  auto found = readers_.find(rank);
  if (found == readers_.end()) return;
  Reader& reader = found->second;
  int fd = reader.pipe.get();
  while (!reader.pending.empty()) {
    ssize_t n = ::write(fd, reader.pending.data(), reader.pending.size());
    if (n > 0) {
      reader.pending.erase(0, static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {  // it has closed its stdin, or is gone
      close_reader(rank);
      update_watch();
      return;
    }
  }
  if (reader.pending.size() > kBacklog) {
    log_.warn("rank {} does not read its stdin: closed it with {} unread", rank, size_text(kBacklog));
    close_reader(rank);
  } else if (reader.pending.empty() && ended_) {
    close_reader(rank);
  } else if (reader.pending.empty()) {
    loop_.unwatch(fd);
  } else if (!loop_.watches(fd)) {
    loop_.watch(fd, EPOLLOUT, [this, rank](uint32_t) { write_to(rank); });
  }
  update_watch();
}

}  // namespace muster::output
