#pragma once

#include <string>
#include <string_view>

#include "muster/output/output.h"

namespace muster::report {

// What the last Python traceback in a text says. Exceptions chain ("During handling of the above exception, …"): the
// first one is what went wrong, the last one is what the process ended with.
struct LastWords {
  std::string first_exception;  // with the further lines of its message; empty when there is no traceback
  std::string last_exception;   // "ValueError: bad batch"
  size_t lines_after = 0;       // lines written after the last exception, its message included
};

// The text is a stderr or the call stack of an error file; PyTorch's "[rank0]: " in front of lines is ignored. Pure.
LastWords last_words(std::string_view text);

// The same of the error a stderr ended with: of its last traceback if that is the error, not one it survived.
LastWords last_words(const output::StderrDigest& output);

// The phrase a lost peer causes (connection reset, NCCL, gloo or MPI aborts) if the text has one; else empty.
std::string_view peer_loss_phrase(std::string_view text);

}  // namespace muster::report
