#pragma once

#include <map>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/result.h"
#include "muster/process/spawn.h"

namespace muster::environment {

// What a worker of a node would find there. Values that look like secrets are masked, with a few bits of a hash, so that
// they can be compared all the same.
struct Fingerprint {
  std::string host;
  std::map<std::string, std::string> versions;  // "python", "torch" …; what is not there is absent
  std::map<std::string, std::string> variables;
  bool operator==(const Fingerprint&) const = default;
};

// Of this machine and this process's environment. Runs Python, which imports nothing large; the deadline is for that.
Fingerprint take_fingerprint(std::string host, const process::Environment& environment, Deadline deadline);

// JSON in short lines. What is read may be anything.
std::string encode(const Fingerprint& fingerprint);
Result<Fingerprint> decode_fingerprint(std::string_view text);

// The pure parts.

// "12.4" of torch/version.py's text; empty: a build without, or it does not say.
std::string cuda_of_torch(std::string_view version_py);
// "*** #1f3a"
std::string masked_with_hash(std::string_view name, const std::string& value);

}  // namespace muster::environment
