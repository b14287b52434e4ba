#pragma once

#include <optional>
#include <string_view>

namespace muster::process {

// "v100:4", "gpu:4", "gpu:v100:1,a100:1": the sum of the GPUs in a number with types, as Slurm writes it
// (SLURM_GPUS_PER_NODE). Nothing: it has no type, or another form. Pure.
std::optional<int> parse_typed_gpus(std::string_view text);

}  // namespace muster::process
