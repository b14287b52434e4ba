#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/environment/fingerprint.h"

namespace muster::environment {

// A variable or version that is not the same on all nodes.
struct Difference {
  std::string name;       // of the variable, or of the version: "torch" …
  bool variable = false;  // false: a version
  struct Group {
    std::optional<std::string> value;  // nothing: it is not set
    std::vector<std::string> hosts;
    bool operator==(const Group&) const = default;
  };
  std::vector<Group> groups;  // the largest first
  bool operator==(const Difference&) const = default;
};

// All pure.

// Versions first, then variables by name. Ignores variables that differ on every node (HOSTNAME, SLURM_NODEID …) and
// those in `ignored`.
std::vector<Difference> differences(const std::vector<Fingerprint>& nodes, const std::vector<std::string>& ignored);

// The text is safe for a terminal: control characters in values are escaped.
std::string differences_text(const std::vector<Fingerprint>& nodes, const std::vector<Difference>& differences);
std::string differences_json(const std::vector<Fingerprint>& nodes, const std::vector<Difference>& differences);

}  // namespace muster::environment
