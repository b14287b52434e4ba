#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/fd.h"

namespace muster::output {

// A file that grows by whole lines up to a cap. What does not fit, or meets a full disk, is dropped line by line and
// counted; nothing fails. The descriptor is blocking (a regular file).
class CappedFile {
 public:
  CappedFile() = default;
  // cap 0: no limit
  static Result<CappedFile> create(const std::string& path, uint64_t cap);
  // Without a name, in `directory`: gone when closed. One that cannot be created drops everything and says why.
  static CappedFile create_unlinked(const std::string& directory, uint64_t cap);

  explicit operator bool() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }
  uint64_t size() const { return size_; }

  // After an error the disk is tried again a second later.
  void append(std::string_view bytes, TimePoint now);
  // No more will come: an unfinished line that was being dropped counts.
  void finish();
  // Empties it, for use again from the start.
  void reset();

  uint64_t dropped_lines() const { return dropped_; }
  // Whether the last append() lost something, and why: "the cap of 1 GiB is reached", "No space left on device".
  bool dropping() const { return dropping_; }
  std::string reason() const;

 private:
  size_t write_some(std::string_view bytes, TimePoint now);
  void drop(std::string_view bytes);
  void cut_unfinished_line();

  Fd fd_;
  uint64_t cap_ = 0;
  uint64_t size_ = 0;
  uint64_t line_end_ = 0;  // just after the last newline written
  uint64_t dropped_ = 0;
  bool dropping_ = false;
  bool mid_drop_ = false;  // the line being dropped has not ended yet
  int error_ = 0;          // errno of the last failure; 0: the cap
  TimePoint retry_at_{};
};

// "1 GiB", "64 KiB", "1000 bytes"
std::string size_text(uint64_t bytes);

}  // namespace muster::output
