#pragma once

#include "muster/job/spec.h"

namespace muster::output {

// Where one stream of one worker comes from and goes to.
struct StreamPlan {
  enum class Source {
    kInherit,  // the worker writes to our own descriptor; we see nothing
    kNull,     // /dev/null
    kPipe,
    kPty,  // so that a worker on a terminal sees one
  };
  enum class Style {
    kRaw,       // as it comes, at once: prompts, partial lines, progress bars
    kLines,     // whole lines; of a line rewritten with \r the last state
    kTorchrun,  // whole lines; \r and \r\n end one too; bad UTF-8 becomes U+FFFD
  };
  Source source = Source::kPipe;
  Style style = Style::kLines;
  bool file = false;      // raw bytes into the log file
  bool console = false;   // shown
  bool labelled = false;  // with the worker's label
  bool filtered = false;  // lines that match a filter also go to filtered_<stream>.log
  bool operator==(const StreamPlan&) const = default;
};

// Pure. `logs_disabled`: --log-dir /dev/null, where -r, -t and the rank filter mean nothing. `terminal`: our own stream
// of that name is one.
StreamPlan plan_stream(const job::JobSpec& job, int local_rank, job::Stream stream, bool logs_disabled, bool terminal);

}  // namespace muster::output
