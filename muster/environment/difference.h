#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/environment/fingerprint.h"

namespace muster::environment {

// Something that is not the same on all nodes.
struct Difference {
  std::string name;       // of the variable, or "torch" …
  bool variable = false;  // or a version
  struct Group {
    std::optional<std::string> value;  // nothing: it is not there
    std::vector<std::string> hosts;
    bool operator==(const Group&) const = default;
  };
  std::vector<Group> groups;  // the largest first
  bool operator==(const Difference&) const = default;
};

// All pure.

// Versions first, then variables by name. Variables that belong to a node by their nature (HOSTNAME, SLURM_NODEID …),
// and those in `ignored`, are no difference.
std::vector<Difference> differences(const std::vector<Fingerprint>& nodes, const std::vector<std::string>& ignored);

// For a terminal too, whatever is in the values.
std::string differences_text(const std::vector<Fingerprint>& nodes, const std::vector<Difference>& differences);
std::string differences_json(const std::vector<Fingerprint>& nodes, const std::vector<Difference>& differences);

}  // namespace muster::environment
