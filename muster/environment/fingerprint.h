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

// The key for the hashes of secrets. Each comparison has its own key, which only its nodes know. Without the key a hash
// does not help to guess the secret.
using FingerprintKey = std::array<unsigned char, 32>;
FingerprintKey random_fingerprint_key();

// What a worker would find on a node. Values that look like secrets are replaced by a mask with a hash, so that they
// can still be compared.
struct Fingerprint {
  std::string host;
  std::map<std::string, std::string> versions;  // "python", "torch" …; only those that the node has
  std::map<std::string, std::string> variables;
  bool operator==(const Fingerprint&) const = default;
};

// For this machine, as a process with this environment sees it. Runs Python, with small imports only, until the
// deadline.
std::map<std::string, std::string> take_versions(const Environment& environment, Deadline deadline);
Fingerprint take_fingerprint(std::string host, const Environment& environment, const FingerprintKey& key,
                             Deadline deadline);

// JSON in short lines. decode_fingerprint() does not trust its input.
std::string encode(const Fingerprint& fingerprint);
Result<Fingerprint> decode_fingerprint(std::string_view text);

// The pure parts.

// "12.4" from the text of torch/version.py; empty if torch has no CUDA or the text does not say.
std::string cuda_of_torch(std::string_view version_py);
// "*** #1f3a55c0"
std::string masked_with_hash(std::string_view name, const std::string& value, const FingerprintKey& key);

}  // namespace muster::environment
