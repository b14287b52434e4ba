#include "muster/output/digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "muster/base/strings.h"
#include "muster/output/traceback.h"

namespace muster::output {
namespace {

// Enough of a line to recognise it and to quote an exception.
constexpr size_t kHead = 4096;

constexpr std::string_view kTerminate = "terminate called after throwing an instance of '";

// First words of messages that are an error by themselves, in one line.
constexpr std::array<std::string_view, 14> kFatalLines = {
    "Fatal Python error:",
    "terminate called",
    "*** ",
    "Segmentation fault",
    "Bus error",
    "Illegal instruction",
    "double free or corruption",
    "free(): ",
    "malloc(): ",
    "munmap_chunk(): ",
    "corrupted ",
    "realloc(): ",
    "panic: ",
    "thread '",
};

// "==4711==ERROR: AddressSanitizer: …"
bool is_sanitizer(std::string_view line) {
  if (!line.starts_with("==")) return false;
  size_t end = line.find("==", 2);
  return end != std::string_view::npos && line.substr(end + 2).starts_with("ERROR: ");
}

// "prog: file.c:7: main: Assertion `x' failed."
bool is_assertion(std::string_view line) {
  return line.ends_with("' failed.") && line.find("Assertion `") != std::string_view::npos;
}

bool is_fatal(std::string_view line) {
  // One look at the first byte settles nearly every line.
  constexpr std::string_view kFirst = "FtSBI*dfmcrp=";
  if (line.empty()) return false;
  if (kFirst.find(line[0]) != std::string_view::npos) {
    for (std::string_view words : kFatalLines) {
      if (!line.starts_with(words)) continue;
      return words != "thread '" || line.find("' panicked at") != std::string_view::npos;
    }
    if (is_sanitizer(line)) return true;
  }
  return line.back() == '.' && is_assertion(line);
}

}  // namespace

void DigestBuilder::feed(std::string_view bytes, TimePoint now) {
  if (bytes.empty()) return;
  keep_tail(bytes);
  if (head_.empty()) head_began_ = now;
  while (true) {
    const void* found = std::memchr(bytes.data(), '\n', bytes.size());
    size_t size = found != nullptr ? static_cast<size_t>(static_cast<const char*>(found) - bytes.data()) : bytes.size();
    std::string_view piece = bytes.substr(0, std::min(size, kHead - std::min(head_.size(), kHead)));
    if (found == nullptr) {
      head_ += piece;
      return;
    }
    if (head_.empty()) {
      take_line(piece, head_began_);
    } else {
      head_ += piece;
      take_line(head_, head_began_);
      head_.clear();
    }
    head_began_ = now;
    bytes.remove_prefix(size + 1);
    if (bytes.empty()) return;
  }
}

void DigestBuilder::keep_tail(std::string_view bytes) {
  if (bytes.size() >= kTail + 1) {
    tail_.assign(bytes.substr(bytes.size() - kTail - 1));
    return;
  }
  tail_ += bytes;
  // Cut rarely, so that a byte is moved once at most on average.
  if (tail_.size() > 4 * kTail) tail_.erase(0, tail_.size() - kTail - 1);
}

void DigestBuilder::begin_error(TimePoint began) {
  error_began_ = began;
  exception_line_.clear();
  lines_after_ = 0;
}

void DigestBuilder::take_line(std::string_view line, TimePoint began) {
  line = bare_line(line);
  if (!indent_.empty() && line.starts_with(indent_)) line.remove_prefix(indent_.size());

  const bool is_group = is_group_traceback(line);
  if (is_group || is_traceback(line)) {
    if (state_ == State::kIgnored) {
      state_ = State::kIgnoredFrames;
      return;
    }
    if (state_ != State::kChained) begin_error(began);
    indent_ = is_group ? "  | " : "";
    state_ = State::kFrames;
    return;
  }
  if (state_ == State::kFrames) {
    if (is_frame_line(line)) return;
    exception_line_ = line;
    indent_.clear();
    state_ = State::kQuiet;
    return;
  }
  if (state_ == State::kIgnoredFrames) {
    if (!is_frame_line(line)) state_ = State::kQuiet;
    return;
  }
  if (line.starts_with("Exception ignored in")) {
    state_ = State::kIgnored;
    return;
  }
  if (is_chain_line(line)) {
    state_ = State::kChained;
    return;
  }
  if (state_ == State::kTerminate) {
    size_t what = line.find("what():");
    state_ = State::kQuiet;
    if (line.starts_with("  ") && what != std::string_view::npos) {
      exception_line_ += fmt::format(": {}", trim(line.substr(what + 7)));
      return;
    }
  }
  if (line.starts_with("  File \"")) {  // a SyntaxError comes without a traceback
    begin_error(began);
    state_ = State::kFrames;
    return;
  }
  if (is_fatal(line)) {
    // Several such lines in a row (terminate, then the signal handler's) tell of one error.
    bool same = error_began_ && lines_after_ < 3;
    if (!same) begin_error(began);
    if (line.starts_with(kTerminate)) {
      std::string_view type = line.substr(kTerminate.size());
      exception_line_ = type.substr(0, type.rfind('\''));
      state_ = State::kTerminate;
    } else if (exception_line_.empty()) {
      exception_line_ = line;
    }
    return;
  }
  if (error_began_ && !line.empty() && state_ != State::kChained) ++lines_after_;
}

StderrDigest DigestBuilder::digest() const {
  DigestBuilder ended = *this;
  if (!ended.head_.empty()) ended.take_line(ended.head_, head_began_);

  StderrDigest digest;
  std::string_view tail = tail_;
  if (tail.size() > kTail) {
    tail.remove_prefix(tail.size() - kTail - 1);
    size_t newline = tail.find('\n');  // from the start of a line; a single longer line is shown cut
    tail.remove_prefix(newline != std::string_view::npos && newline + 1 < tail.size() ? newline + 1 : 1);
  }
  digest.tail = tail;
  if (ended.error_began_ && ended.lines_after_ <= kLinesAfter) {
    digest.first_error_time = ended.error_began_;
    digest.exception_line = ended.exception_line_;
  }
  return digest;
}

}  // namespace muster::output
