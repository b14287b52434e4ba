#include "muster/report/last_words.h"

#include <array>
#include <cctype>
#include <vector>

#include "muster/base/strings.h"
#include "muster/output/traceback.h"

namespace muster::report {
namespace {

// Lines of a message that are searched for a lost peer's words.
constexpr size_t kMessageLines = 12;

// As they are shown; compared without regard to case.
constexpr auto kPeerLoss = std::to_array<std::string_view>({
    // sockets, gloo
    "Connection closed by peer",
    "Connection reset by peer",
    "Connection closed by remote peer",
    "Connection reset by remote peer",
    "Connection refused",
    "Broken pipe",
    "connectFullMesh",
    "Application timeout caused pair closure",
    "operation to complete timed out",
    "ms for recv operation to complete",
    "ms for send operation to complete",
    // NCCL
    "remote process exited or there was a network error",
    "ncclRemoteError",
    "NCCL communicator was aborted",
    "Watchdog caught collective operation timeout",
    "transport retry count exceeded",
    // TCPStore
    "Did the remote server shutdown or crash",
    "Connection was likely closed",
    "failed to recv, got 0 bytes",
    "DistNetworkError",
    // MPI
    "MPI_ERR_PROC_FAILED",
    "MPI_ABORT was invoked",
    "lost communication with",
    "PMIX_ERR_LOST_CONNECTION",
});

// "[W1115 10:04:50.509 file.cpp:12] …", "[E ProcessGroup…": a log line, no part of an exception's message.
bool is_log_line(std::string_view line) {
  return line.size() > 2 && line[0] == '[' && std::string_view("IWEF").find(line[1]) != std::string_view::npos &&
         (line[2] == ' ' || std::isdigit(static_cast<unsigned char>(line[2])) != 0);
}

using Lines = std::vector<std::string_view>;

// The line of the exception that follows the frames of the traceback at `header`: the first that is not indented.
size_t exception_of(const Lines& lines, size_t header) {
  size_t i = header + 1;
  while (i < lines.size() && output::is_frame_line(lines[i])) ++i;
  return i;
}

// Where the chain that ends with the traceback at `header` begins.
size_t chain_start(const Lines& lines, size_t header) {
  for (size_t i = header; i-- > 0;) {
    if (trim(lines[i]).empty()) continue;
    if (!output::is_chain_line(lines[i])) return header;
    size_t previous = i;
    while (previous-- > 0)
      if (output::is_traceback(lines[previous])) break;
    if (previous >= i) return header;  // cut off: the text begins after it
    header = i = previous;
  }
  return header;
}

std::string message_at(const Lines& lines, size_t begin) {
  std::string text(lines[begin]);
  for (size_t i = begin + 1; i < lines.size() && i < begin + kMessageLines; ++i) {
    if (is_log_line(lines[i]) || output::is_chain_line(lines[i]) || output::is_traceback(lines[i])) break;
    text += '\n';
    text += lines[i];
  }
  return text;
}

}  // namespace

LastWords last_words(std::string_view text) {
  Lines lines = split(text, '\n');
  size_t last = lines.size();
  for (size_t i = 0; i < lines.size(); ++i) {
    lines[i] = output::bare_line(lines[i]);
    if (output::is_traceback(lines[i])) last = i;
  }
  if (last == lines.size()) return {};
  size_t ended_with = exception_of(lines, last);
  if (ended_with == lines.size()) return {};  // it died while printing
  LastWords words;
  words.last_exception = lines[ended_with];
  words.first_exception = message_at(lines, exception_of(lines, chain_start(lines, last)));
  for (size_t i = ended_with + 1; i < lines.size(); ++i)
    if (!trim(lines[i]).empty()) ++words.lines_after;
  return words;
}

LastWords last_words(const output::StderrDigest& output) {
  if (output.exception_line.empty()) return {};
  LastWords words = last_words(output.tail);
  // The digest keeps the beginning of a long line only.
  if (words.last_exception.starts_with(output.exception_line)) return words;
  return {output.exception_line, output.exception_line, 0};
}

std::string_view peer_loss_phrase(std::string_view text) {
  std::string lower = lower_case(text);
  for (std::string_view phrase : kPeerLoss)
    if (lower.find(lower_case(phrase)) != std::string::npos) return phrase;
  return {};
}

}  // namespace muster::report
