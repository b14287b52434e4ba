#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/net/event_loop.h"
#include "muster/output/capped_file.h"

namespace muster::output {

class FileWriter;

// A capped file that the thread of a FileWriter appends to, so that a file system that does not respond (NFS, Lustre,
// FUSE) stops no event loop. For the loop's thread; nothing here blocks.
//
// While the disk is merely slow, has_room() is false now and then: FileWriter::on_room follows. If the writer's thread has
// written nothing for kPatience, to whichever file, what does not fit into memory is dropped by whole lines, and counted,
// until the thread goes on.
class WrittenFile {
 public:
  static constexpr size_t kMostWaiting = 4 << 20;  // bytes in memory
  static constexpr Duration kPatience = std::chrono::seconds(2);

  WrittenFile() = default;
  WrittenFile(FileWriter& writer, std::string path, CappedFile file);

  explicit operator bool() const { return file_ != nullptr; }
  void append(std::string_view bytes, TimePoint now);
  bool has_room(TimePoint now) const;
  // Whether the last line that was written or dropped is lost, and why: "is full (No space left on device)".
  bool dropping() const;
  std::string reason() const;
  uint64_t dropped_lines() const;
  // No more will come. `told`: everything is written; how many lines were dropped, and why. From the loop; not if the
  // writer ends before.
  void close(std::function<void(uint64_t dropped, const std::string& reason)> told);

 private:
  friend class FileWriter;
  struct Shared;

  std::shared_ptr<Shared> file_;
  FileWriter* writer_ = nullptr;
};

// The thread that writes files. It is started with the first of them. The files take turns: in a turn the thread writes
// what a file has at the turn's beginning.
class FileWriter {
 public:
  explicit FileWriter(net::EventLoop& loop);
  ~FileWriter();  // leaves a thread behind that is stuck
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Blocks until the deadline at most; kTimeout: the file system does not respond.
  Result<WrittenFile> create(const std::string& path, uint64_t cap, Deadline deadline);
  std::function<void()> on_room;  // some file has room again
  std::function<void()> on_idle;
  bool idle() const;  // all files are written
  // The file of a write that has lasted for so long; empty: none.
  std::string stuck_file(Duration lasting) const;

 private:
  friend class WrittenFile;
  struct Shared;

  void wake_thread(const std::shared_ptr<WrittenFile::Shared>& file);
  void woken();
  void room_at_last();
  TimePoint last_progress() const;

  net::EventLoop& loop_;
  std::shared_ptr<Shared> shared_;  // with the thread
  struct Closing {
    std::shared_ptr<WrittenFile::Shared> file;
    std::function<void(uint64_t, const std::string&)> told;
  };
  std::list<Closing> closing_;
  net::EventLoop::TimerId room_timer_ = 0;
  bool started_ = false;
};

}  // namespace muster::output
