#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/result.h"

namespace muster::report {

// What a worker wrote to $TORCHELASTIC_ERROR_FILE (PyTorch's @record, or any program).
struct ErrorFile {
  std::string message;               // "ValueError: bad batch"
  std::string callstack;             // py_callstack; may be empty
  std::optional<int64_t> timestamp;  // unix seconds
  bool structured = false;           // "message" was an object, not a plain string
};

// Untrusted bytes. Both forms PyTorch accepts; an error says what is missing.
Result<ErrorFile> parse_error_file(std::string_view json);

// The root cause's file with "errorCode" added, for the launcher's own TORCHELASTIC_ERROR_FILE.
Result<std::string> error_file_with_code(std::string_view json, int code);

// The text of a worker's error file; empty: there is none. A file system that does not respond until the deadline is an
// error.
Result<std::optional<std::string>> read_error_file(const std::string& path, Deadline deadline);

}  // namespace muster::report
