#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/result.h"
#include "muster/process/spawn.h"

namespace muster::environment {

// What the hashes of secrets are made with. All nodes of a comparison have the same, which nobody else has and no other
// comparison: without it nobody finds a value by trying.
using FingerprintKey = std::array<unsigned char, 32>;
FingerprintKey random_fingerprint_key();

// What a worker of a node would find there. Values that look like secrets are masked, with a hash, so that they can be
// compared all the same.
struct Fingerprint {
  std::string host;
  std::map<std::string, std::string> versions;  // "python", "torch" …; what is not there is absent
  std::map<std::string, std::string> variables;
  bool operator==(const Fingerprint&) const = default;
};

// Of this machine, as what has this environment finds it. Runs Python, which imports nothing large; the deadline is for
// that.
std::map<std::string, std::string> take_versions(const Environment& environment, Deadline deadline);
Fingerprint take_fingerprint(std::string host, const Environment& environment, const FingerprintKey& key,
                             Deadline deadline);

// JSON in short lines. What is read may be anything.
std::string encode(const Fingerprint& fingerprint);
Result<Fingerprint> decode_fingerprint(std::string_view text);

// The pure parts.

// "12.4" of torch/version.py's text; empty: a build without, or it does not say.
std::string cuda_of_torch(std::string_view version_py);
// "*** #1f3a55c0"
std::string masked_with_hash(std::string_view name, const std::string& value, const FingerprintKey& key);

}  // namespace muster::environment
