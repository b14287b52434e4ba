// Values of the variables that name GPUs: never more of them than the text can hold, none twice.

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string_view>

#include "muster/process/gpus.h"
#include "muster/process/typed_gpus.h"

using namespace muster::process;

namespace {

void check_distinct(const std::vector<std::string>& ids) {
  if (std::set<std::string>(ids.begin(), ids.end()).size() != ids.size()) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string value(reinterpret_cast<const char*>(data), size);
  auto visible = parse_visible_devices(value);
  check_distinct(visible);
  if (visible.size() > size) abort();
  check_distinct(parse_ze_mask(value, false));
  check_distinct(parse_ze_mask(value, true));
  if (auto list = parse_gpu_list(value)) check_distinct(*list);
  if (auto amount = parse_gpu_amount(value); amount && *amount < 0) abort();
  if (auto amount = parse_typed_gpus(value); amount && amount != parse_gpu_amount(value)) abort();
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE"}) {
    GpuCount gpus = count_gpus(
        [&](const std::string& asked) { return asked == name ? std::optional(value) : std::nullopt; }, "/nonexistent");
    if (gpus.count != static_cast<int>(gpus.ids.size())) abort();
  }
  return 0;
}
