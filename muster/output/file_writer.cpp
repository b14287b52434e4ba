#include "muster/output/file_writer.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "muster/base/detached_thread.h"

namespace muster::output {

namespace {

constexpr size_t kPiece = 256 << 10;  // one write: a slow disk is not taken for one that does nothing

}  // namespace

// Both threads', under `mutex`, but for `file` and `writing`, which are the thread's.
struct WrittenFile::Shared {
  std::string path;
  CappedFile file;
  std::string writing;
  std::mutex mutex;
  std::string waiting;
  bool queued = false;  // waiting for the thread, or being written
  bool closed = false;
  uint64_t dropped_by_file = 0, dropped_here = 0;
  bool dropping = false, dropping_here = false;
  bool mid_drop = false;  // the line that is being dropped here has not ended
  std::string reason;

  bool take_turn(std::atomic<TimePoint>& progress);
  void drop(std::string_view bytes);
};

struct FileWriter::Shared {
  std::mutex mutex;
  std::condition_variable work;
  std::deque<std::shared_ptr<WrittenFile::Shared>> queue;
  std::shared_ptr<WrittenFile::Shared> current;
  bool ending = false;
  std::atomic<TimePoint> progress{};  // if a file is queued: the last time that the thread has finished a write
  Fd ready{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  void serve();
};

// --- The thread -----------------------------------------------------------------------------------------------------

void FileWriter::Shared::serve() {
  std::unique_lock lock(mutex);
  for (;;) {
    work.wait(lock, [this] { return ending || !queue.empty(); });
    if (queue.empty()) return;
    current = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    const bool more = current->take_turn(progress);
    progress = Clock::now();
    lock.lock();
    if (more) queue.push_back(std::move(current));
    current.reset();
    (void)::eventfd_write(ready.get(), 1);
  }
}

// Writes what waits now. Returns true if more has come meanwhile: the other files have their turn first.
bool WrittenFile::Shared::take_turn(std::atomic<TimePoint>& progress) {
  std::unique_lock lock(mutex);
  std::swap(waiting, writing);  // their memory is used again
  lock.unlock();
  for (std::string_view rest = writing; !rest.empty(); rest.remove_prefix(std::min(rest.size(), kPiece))) {
    file.append(rest.substr(0, kPiece), Clock::now());
    progress = Clock::now();
  }
  writing.clear();
  lock.lock();
  const bool more = !waiting.empty();
  if (closed && !more) file.finish();
  dropped_by_file = file.dropped_lines();
  dropping = file.dropping();
  if (dropping || dropped_by_file > 0) reason = fmt::format("is full ({})", file.reason());
  if (more) return true;
  if (closed) {  // here, since closing may block too
    CappedFile last = std::exchange(file, {});
    lock.unlock();
    last = {};
    lock.lock();
  }
  queued = false;
  return false;
}

// --- The loop -------------------------------------------------------------------------------------------------------

WrittenFile::WrittenFile(FileWriter& writer, std::string path, CappedFile file)
    : file_(std::make_shared<Shared>()), writer_(&writer) {
  file_->path = std::move(path);
  file_->file = std::move(file);
}

void WrittenFile::Shared::drop(std::string_view bytes) {
  dropped_here += static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
  mid_drop = !bytes.empty() && bytes.back() != '\n';
  reason = "is on a file system that does not respond";
}

void WrittenFile::append(std::string_view bytes, TimePoint now) {
  {
    std::lock_guard lock(file_->mutex);
    if (file_->mid_drop) {  // the rest of a line whose beginning is lost is lost too
      const size_t newline = bytes.find('\n');
      const size_t rest = newline == std::string_view::npos ? bytes.size() : newline + 1;
      file_->drop(bytes.substr(0, rest));
      bytes.remove_prefix(rest);
      if (bytes.empty()) return;
    }
    const bool stuck = file_->queued && now - writer_->last_progress() >= kPatience;
    size_t fits = bytes.size();
    if (stuck && file_->waiting.size() + fits > kMostWaiting) {
      const size_t room = kMostWaiting - std::min(kMostWaiting, file_->waiting.size());
      fits = bytes.substr(0, room).rfind('\n') + 1;
    }
    file_->dropping_here = fits < bytes.size();
    if (file_->dropping_here) file_->drop(bytes.substr(fits));
    if (fits == 0) return;
    file_->waiting += bytes.substr(0, fits);
    if (std::exchange(file_->queued, true)) return;
  }
  writer_->wake_thread(file_);
}

bool WrittenFile::has_room(TimePoint now) const {
  if (!file_) return true;
  std::lock_guard lock(file_->mutex);
  if (file_->waiting.size() < kMostWaiting || now - writer_->last_progress() >= kPatience) return true;
  writer_->room_at_last();
  return false;
}

bool WrittenFile::dropping() const {
  std::lock_guard lock(file_->mutex);
  return file_->dropping || file_->dropping_here;
}

std::string WrittenFile::reason() const {
  std::lock_guard lock(file_->mutex);
  return file_->reason;
}

uint64_t WrittenFile::dropped_lines() const {
  if (!file_) return 0;
  std::lock_guard lock(file_->mutex);
  return file_->dropped_by_file + file_->dropped_here;
}

void WrittenFile::close(std::function<void(uint64_t, const std::string&)> told) {
  if (!file_) return;
  bool wake;
  {
    std::lock_guard lock(file_->mutex);
    file_->closed = true;
    if (std::exchange(file_->mid_drop, false)) ++file_->dropped_here;
    wake = !std::exchange(file_->queued, true);
  }
  writer_->closing_.push_back({file_, std::move(told)});
  if (wake) writer_->wake_thread(file_);
}

FileWriter::FileWriter(net::EventLoop& loop) : loop_(loop), shared_(std::make_shared<Shared>()) {}

FileWriter::~FileWriter() {
  if (!started_) return;
  loop_.unwatch(shared_->ready.get());
  loop_.cancel(room_timer_);
  std::lock_guard lock(shared_->mutex);
  shared_->ending = true;
  shared_->work.notify_one();
}

Result<WrittenFile> FileWriter::create(const std::string& path, uint64_t cap, Deadline deadline) {
  auto created = call_with_deadline<Result<CappedFile>>(deadline, [=] { return CappedFile::create(path, cap); });
  if (!created)
    return Error{ErrorKind::kTimeout,
                 fmt::format("cannot create the log file {}: its file system does not respond", path),
                 "name another directory with --log-dir"};
  MUSTER_TRY(CappedFile file, *std::move(created));
  if (!started_) {
    if (!shared_->ready) return system_error(errno, "eventfd");
    MUSTER_TRY_VOID(start_detached_thread([shared = shared_] { shared->serve(); },
                                          "cannot start the thread that writes log files"));
    started_ = true;
    loop_.watch(shared_->ready.get(), EPOLLIN, [this](uint32_t) { woken(); });
  }
  return WrittenFile(*this, path, std::move(file));
}

void FileWriter::wake_thread(const std::shared_ptr<WrittenFile::Shared>& file) {
  std::lock_guard lock(shared_->mutex);
  if (shared_->queue.empty() && !shared_->current) shared_->progress = Clock::now();
  shared_->queue.push_back(file);
  shared_->work.notify_one();
}

TimePoint FileWriter::last_progress() const { return shared_->progress; }

// Even if the disk does nothing.
void FileWriter::room_at_last() {
  if (room_timer_ != 0) return;
  room_timer_ = loop_.call_after(WrittenFile::kPatience, [this] {
    room_timer_ = 0;
    if (on_room) on_room();
  });
}

// A file has had its turn.
void FileWriter::woken() {
  eventfd_t count;
  (void)::eventfd_read(shared_->ready.get(), &count);
  if (on_room) on_room();
  for (auto each = closing_.begin(); each != closing_.end();) {
    std::unique_lock lock(each->file->mutex);
    if (each->file->queued) {
      ++each;
      continue;
    }
    const uint64_t dropped = each->file->dropped_by_file + each->file->dropped_here;
    const std::string reason = each->file->reason;
    lock.unlock();
    auto told = std::move(each->told);
    each = closing_.erase(each);
    if (told) told(dropped, reason);
  }
  if (on_idle && idle()) on_idle();
}

bool FileWriter::idle() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->queue.empty() && !shared_->current && closing_.empty();
}

std::string FileWriter::stuck_file(Duration lasting) const {
  std::lock_guard lock(shared_->mutex);
  const bool stuck = shared_->current && Clock::now() - last_progress() >= lasting;
  return stuck ? shared_->current->path : std::string();
}

}  // namespace muster::output
