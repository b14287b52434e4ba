#include <cstdint>

#include "muster/accelerate/config_file.h"

// The first byte chooses JSON or YAML.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string name = data[0] % 4 == 0 ? "c.json" : "c.yaml";
  auto config = muster::accelerate::parse_config({reinterpret_cast<const char*>(data) + 1, size - 1}, name);
  if (!config) return 0;
  muster::accelerate::Settings settings;
  std::vector<std::string> notes;
  (void)muster::accelerate::apply_config(*config, name, settings, notes);
  return 0;
}
