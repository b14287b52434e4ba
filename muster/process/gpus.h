#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/environment.h"

namespace muster::process {

// The GPUs that this process was given, and how muster knows ("CUDA_VISIBLE_DEVICES=0,1"): for --dry-run and errors.
struct GpuCount {
  int count = 0;
  std::string source;            // the variable or file that decided; empty: nothing names a GPU
  std::vector<std::string> ids;  // as the variable lists them, else "0" … "n-1"
  std::string visible_variable;  // the variable that hides devices from a worker: CUDA_VISIBLE_DEVICES, …
};

// Looks, in this order, at CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, ZE_AFFINITY_MASK, the
// scheduler's variables, <root>/proc/driver/nvidia/gpus and <root>/sys/class/kfd. Loads no driver library, and reads
// no file when a variable decides. `root` is "" outside tests.
GpuCount count_gpus(const GetEnv& getenv, const std::string& root = "");

// False for several GeForce RTX 40 with a driver before 550.40.07: they cannot reach each other's memory, and NCCL must
// be told. Reads the driver's files in /proc.
bool have_peer_access(const std::string& root = "");

// The pure parts. (PBS names GPUs in no variable but the CUDA_VISIBLE_DEVICES of its hook.)

// The devices that CUDA and HIP make visible for a value: numbers ("1x" is 1), or UUIDs ("GPU-…", "MIG-…") whose kind
// the first entry fixes. The first entry that is neither ends the list, a repeated one leaves nothing at all.
std::vector<std::string> parse_visible_devices(std::string_view value);

// Entries of ZE_AFFINITY_MASK, "card" or "card.tile", each once; with `composite`, the cards they belong to.
std::vector<std::string> parse_ze_mask(std::string_view value, bool composite);

// The share of one of `parts`: consecutive devices, or, if there are too few, one device that other parts have as
// well.
GpuCount share_of(const GpuCount& gpus, int part, int parts);

// "4", "v100:4", "gpu:a100:2,gpu:v100:1(S:0-1)": the sum; nothing if it is not of that form.
std::optional<int> parse_gpu_amount(std::string_view value);

// "0,2-4" and "gpu:0,1": the indices.
std::optional<std::vector<std::string>> parse_gpu_list(std::string_view value);

}  // namespace muster::process
