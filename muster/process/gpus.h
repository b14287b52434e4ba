#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::process {

// How many GPUs this process was given, and how that is known ("CUDA_VISIBLE_DEVICES=0,1"): for --dry-run and errors.
struct GpuCount {
  int count = 0;
  std::string source;            // the variable or file that decided; empty: nothing names a GPU
  std::vector<std::string> ids;  // as the variable lists them, else "0" … "n-1"
  std::string visible_variable;  // the variable that hides devices from a worker: CUDA_VISIBLE_DEVICES, …
};

using GetEnv = std::function<std::optional<std::string>(const std::string&)>;

// Looks, in this order, at CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, ZE_AFFINITY_MASK, the
// scheduler's variables, <root>/proc/driver/nvidia/gpus and <root>/sys/class/kfd. Loads no driver library.
// `root` is "" outside tests.
GpuCount count_gpus(const GetEnv& getenv, const std::string& root = "");

}  // namespace muster::process
