#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/output/output.h"

namespace muster::output {

// Watches a worker's stderr go by: keeps its last lines and when the error that it ends with began (Python tracebacks,
// chained ones counted from the first; C++ terminate; fatal Python errors; sanitizers; glibc's own last words). Pure:
// looks at the beginnings of lines only.
class DigestBuilder {
 public:
  static constexpr size_t kTail = 16 << 10;
  // An error followed by more lines than this was survived: it is not what the worker died of.
  static constexpr int kLinesAfter = 100;

  void feed(std::string_view bytes, TimePoint now);
  // What is known so far; an unfinished last line counts as a line.
  StderrDigest digest() const;

 private:
  enum class State {
    kQuiet,      // no error, or the last one has been told to its end
    kFrames,     // inside a traceback, before its exception line
    kTerminate,  // "terminate called …" was seen, "what():" may follow
    kChained,    // "During handling of the above exception …": the next traceback belongs to the same error
    kIgnored,    // "Exception ignored in …": the next traceback is no error
    kIgnoredFrames,
  };

  void keep_tail(std::string_view bytes);
  void take_line(std::string_view line, TimePoint began);
  void begin_error(TimePoint began);

  std::string tail_;
  std::string head_;        // the beginning of the unfinished line
  TimePoint head_began_{};  // when its first byte arrived
  State state_ = State::kQuiet;
  std::string indent_;  // what an exception group puts in front of its lines
  std::optional<TimePoint> error_began_;
  std::string exception_line_;
  int lines_after_ = 0;
};

}  // namespace muster::output
