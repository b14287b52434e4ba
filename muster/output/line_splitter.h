#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "muster/output/stream_plan.h"

namespace muster::output {

// Turns a stream that arrives in arbitrary pieces into labelled whole lines. What comes out does not depend on how the
// input was cut. Pure; holds at most one unfinished line.
class LineSplitter {
 public:
  // A longer line is shown in pieces of this size, so that one without end cannot fill the memory.
  static constexpr size_t kLongestLine = 1 << 20;

  LineSplitter(StreamPlan::Style style, std::string label, size_t longest_line = kLongestLine);

  // Appends to `out` every line that is now complete.
  void feed(std::string_view bytes, std::string& out);
  // The stream has ended: the unfinished line, with a newline unless the style is torchrun's (or raw).
  void finish(std::string& out);

  bool has_partial() const { return !line_.empty(); }
  // Shows an unfinished line as it stands: a prompt. What follows continues it, without a label.
  void flush_partial(std::string& out);
  // Somebody else wrote in between: what follows needs its label again.
  void reopen() { open_ = false; }

  // What a terminal would show of a line that is being rewritten with \r; empty: no such line.
  std::string_view progress() const { return rewritten_ ? current() : std::string_view(); }
  const std::string& label() const { return label_; }

 private:
  void feed_plain(std::string_view bytes, std::string& out);
  void feed_rewriting(std::string_view bytes, std::string& out);
  void feed_torchrun(std::string_view bytes, std::string& out);
  void extend(std::string_view piece, std::string& out);
  void end_line(std::string& out);
  void emit(std::string_view text, std::string& out);
  // The unfinished line without ways up to the one above, which a bar below another one ends with.
  std::string_view current() const;

  StreamPlan::Style style_;
  std::string label_;
  size_t longest_line_;
  std::string line_;        // the unfinished line (after its last \r)
  bool return_ = false;     // the last byte was a \r
  bool rewritten_ = false;  // the line had a \r in it
  bool open_ = false;       // its beginning and label are on the console already
};

// Appends text with every malformed sequence replaced by U+FFFD, as Python's errors="replace" does.
void append_valid_utf8(std::string_view text, std::string& out);

}  // namespace muster::output
