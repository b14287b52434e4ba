#pragma once

#include <optional>
#include <string_view>

namespace muster::process {

// "v100:4", "gpu:4", "gpu:v100:1,a100:1": a number of GPUs as Slurm writes one that has types (SLURM_GPUS_PER_NODE), as
// the sum. Nothing: it has no type, or is not of that form. Pure.
std::optional<int> parse_typed_gpus(std::string_view text);

}  // namespace muster::process
