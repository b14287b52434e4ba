#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/fd.h"
#include "muster/net/event_loop.h"
#include "muster/output/console.h"
#include "muster/output/digest.h"
#include "muster/output/file_writer.h"
#include "muster/output/line_splitter.h"
#include "muster/output/stream_plan.h"

namespace muster::output {

// Lines of all tee'd ranks that contain one of the filters: filtered_stdout.log, filtered_stderr.log.
struct FilteredLog {
  FilteredLog(std::string path_in, WrittenFile file_in, std::vector<std::string> filters_in)
      : path(std::move(path_in)), file(std::move(file_in)), filters(std::move(filters_in)) {}
  ~FilteredLog() { file.close({}); }
  FilteredLog(const FilteredLog&) = delete;
  FilteredLog& operator=(const FilteredLog&) = delete;

  std::string path;
  WrittenFile file;
  std::vector<std::string> filters;
  bool dropping_said = false;

  // Whole, labelled lines.
  void take(std::string_view lines, TimePoint now);
};

// What all streams of an Output share.
struct StreamContext {
  // Large enough that a read costs little, small enough to stay in the cache until written.
  static constexpr size_t kReadSize = 256 << 10;

  net::EventLoop& loop;
  Console& console;
  FileWriter files;                          // log files
  std::unique_ptr<char[]> buffer;            // kReadSize: what one read may bring
  std::shared_ptr<FilteredLog> filtered[2];  // of the current round; null without filters
  const void* live_owner = nullptr;          // the stream whose progress is the live line
};

// stdout or stderr of one worker: from its pipe or pty to log file, digest and console.
class WorkerStream {
 public:
  struct Options {
    StreamPlan plan;
    job::Stream stream;
    std::string name = {};      // "rank 3 stdout"
    std::string label = {};     // empty: none
    std::string log_path = {};  // where plan.file
    uint64_t cap = 0;
    bool shows_progress = false;  // its \r progress is the console's live line
    // Where there is no such line: progress is shown as a line when no other has been for so long. None: never.
    std::optional<Duration> progress_period = {};
    bool prompts = false;          // its worker has the terminal's input: show an unfinished line after a pause
    const void* writer = nullptr;  // see Console::begin
  };

  WorkerStream(StreamContext& context, Options options);
  ~WorkerStream();
  WorkerStream(const WorkerStream&) = delete;
  WorkerStream& operator=(const WorkerStream&) = delete;

  // Opens the log file, until the deadline at most (kTimeout), and makes pipe or pty; starts reading.
  Result<void> open(Deadline deadline);
  int child_fd() const { return child_end_.get(); }
  void close_child_end() { child_end_.reset(); }

  // Reads what is there now.
  void catch_up();
  // The same, and ends, even if somebody still holds the other end.
  void drain();
  // The console, or a file, has room again.
  void resume();
  void window_resized();

  StderrDigest digest() const { return digest_.digest(); }
  const std::string& log_path() const { return options_.log_path; }
  uint64_t dropped_lines() const { return file_.dropped_lines(); }

 private:
  Result<void> open_source();
  void on_readable();
  // Bytes taken; 0: nothing there for now; none: the end.
  std::optional<size_t> read_once();
  void take(std::string_view bytes);
  void show(std::string_view bytes);
  void show_progress();
  void sample_progress(std::string& out, bool lines_shown);
  void wait_for_prompt();
  void show_prompt();
  void filter(std::string_view lines);
  void say_dropped();
  void end();

  StreamContext& context_;
  Options options_;
  Fd source_;
  Fd child_end_;
  WrittenFile file_;
  LineSplitter splitter_;
  DigestBuilder digest_;
  bool enlarged_ = false;
  bool held_ = false;  // not reading: the console is full, or the disk slow
  bool dropping_said_ = false;
  std::optional<TimePoint> lines_shown_;  // when the last ones were; at first when the stream began
  net::EventLoop::TimerId prompt_timer_ = 0;
};

}  // namespace muster::output
