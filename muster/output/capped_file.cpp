#include "muster/output/capped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace muster::output {
namespace {

// Bytes up to and including the last newline; 0: there is none.
size_t whole_lines(std::string_view bytes) { return bytes.rfind('\n') + 1; }

}  // namespace

std::string size_text(uint64_t bytes) {
  constexpr std::pair<int, const char*> kUnits[] = {{30, "GiB"}, {20, "MiB"}, {10, "KiB"}};
  for (auto [shift, unit] : kUnits) {
    if (bytes >= uint64_t{1} << shift && bytes % (uint64_t{1} << shift) == 0) {
      return fmt::format("{} {}", bytes >> shift, unit);
    }
  }
  return fmt::format("{} bytes", bytes);
}

Result<CappedFile> CappedFile::create(const std::string& path, uint64_t cap) {
  CappedFile file;
  file.fd_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666));
  // What is no regular file (a fifo, /dev/stdout) may be write-only.
  if (!file.fd_) file.fd_.reset(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  if (!file.fd_) return system_error(errno, fmt::format("cannot create the log file {}", path));
  file.cap_ = cap;
  return file;
}

CappedFile CappedFile::create_unlinked(const std::string& directory, uint64_t cap) {
  CappedFile file;
  file.fd_.reset(::open(directory.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC | O_APPEND, 0600));
  if (!file.fd_) {  // not every file system has O_TMPFILE
    std::string path = directory + "/muster_spool_XXXXXX";
    file.fd_.reset(::mkostemp(path.data(), O_CLOEXEC | O_APPEND));
    if (file.fd_) {
      ::unlink(path.c_str());
    } else {
      file.error_ = errno;
    }
  }
  file.cap_ = cap;
  return file;
}

void CappedFile::append(std::string_view bytes, TimePoint now) {
  if (mid_drop_) {  // the rest of a line whose beginning is lost is lost too
    size_t newline = bytes.find('\n');
    size_t rest = newline == std::string_view::npos ? bytes.size() : newline + 1;
    drop(bytes.substr(0, rest));
    bytes.remove_prefix(rest);
    if (bytes.empty()) return;
  }
  size_t written = write_some(bytes, now);
  dropping_ = written < bytes.size();
  if (dropping_) drop(bytes.substr(written));
}

// Returns how many bytes are in the file for good: all, or whole lines.
size_t CappedFile::write_some(std::string_view bytes, TimePoint now) {
  if (!fd_ || (dropping_ && error_ != 0 && now < retry_at_)) return 0;
  size_t fits = bytes.size();
  uint64_t room = cap_ == 0 ? UINT64_MAX : cap_ - std::min(cap_, size_);
  if (fits > room) fits = whole_lines(bytes.substr(0, room));
  size_t done = 0;
  int error = 0;
  while (done < fits && error == 0) {
    ssize_t n = ::write(fd_.get(), bytes.data() + done, fits - done);
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  size_t lines = whole_lines(bytes.substr(0, done));
  if (lines > 0) line_end_ = size_ + lines;
  size_ += done;
  if (done == bytes.size()) return done;
  error_ = error;
  retry_at_ = now + std::chrono::seconds(1);
  cut_unfinished_line();
  return lines;
}

// The file ends with a whole line, whatever was lost after it.
void CappedFile::cut_unfinished_line() {
  if (size_ == line_end_) return;
  if (::ftruncate(fd_.get(), static_cast<off_t>(line_end_)) == 0) size_ = line_end_;
}

void CappedFile::drop(std::string_view bytes) {
  dropped_ += static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
  mid_drop_ = bytes.back() != '\n';
}

void CappedFile::finish() {
  if (std::exchange(mid_drop_, false)) ++dropped_;
}

void CappedFile::reset() {
  // What cannot be emptied would be read twice: better the offsets stay.
  if (!fd_ || ::ftruncate(fd_.get(), 0) != 0) return;
  size_ = line_end_ = 0;
}

std::string CappedFile::reason() const {
  return error_ != 0 ? std::string(::strerror(error_))
                     : fmt::format("cap {}; raise it with --output-cap", size_text(cap_));
}

}  // namespace muster::output
