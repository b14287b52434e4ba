#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster::cluster {

// A node to start an agent on.
struct Host {
  std::string name;            // for ssh, and for people
  std::optional<int> workers;  // "n2:4", "n2:v100:4", or slots= of a hostfile; else the node counts its own
  bool operator==(const Host&) const = default;
};

// "n1,n2:4,n3:v100:4,gpu[01-03,7]x:2,user@n9,[fe80::1]:2": commas between, Slurm's brackets within, workers also as Slurm
// writes GPUs with one type. Errors name the piece. At most 65536 hosts. A host may be named once only.
Result<std::vector<Host>> parse_hosts(std::string_view text);

// A hostfile: one host (or hostlist) a line, in any of the forms people have: "n1", "n1:4", "n1 slots=4" (Open MPI,
// DeepSpeed), "n1 slots=v100:2,a100:2", "n1:4 # comment", blank lines; a host that comes again adds its slots (PBS nodefiles
// name it once a slot). Errors name the line. At most 65536 hosts, named a million times.
Result<std::vector<Host>> parse_hostfile(std::string_view text);

// Hostlist syntax alone: "n[1-3,7],gpu[001-004]x" in order, duplicates kept.
Result<std::vector<std::string>> expand_hostlist(std::string_view text);

}  // namespace muster::cluster
