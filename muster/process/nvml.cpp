// The one thing wanted of NVML, NVIDIA's management library: where a GPU is on the PCI bus.

#include <fmt/format.h>

#include "muster/base/shared_library.h"
#include "muster/base/strings.h"
#include "muster/process/binding.h"

namespace muster::process {
namespace {

// As NVML's ABI has them.
using Device = struct DeviceTag*;
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};
constexpr int kSuccess = 0;
constexpr unsigned kUuidSize = 96;

class Nvml {
 public:
  Nvml() : library_(SharedLibrary::open({"libnvidia-ml.so.1"})) {
    if (!library_) return;
    auto init = library_->function<int()>("nvmlInit_v2");
    started_ = init != nullptr && init() == kSuccess;
  }
  ~Nvml() {
    if (auto shutdown = started_ ? library_->function<int()>("nvmlShutdown") : nullptr) shutdown();
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool started() const { return started_; }

  Device by_index(unsigned index) const {
    Device device = nullptr;
    auto get = library_->function<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2");
    return get != nullptr && get(index, &device) == kSuccess ? device : nullptr;
  }

  // CUDA accepts the beginning of a UUID where only one GPU has it.
  Device by_uuid_prefix(const std::string& prefix) const {
    unsigned count = 0;
    auto get_count = library_->function<int(unsigned*)>("nvmlDeviceGetCount_v2");
    auto get_uuid = library_->function<int(Device, char*, unsigned)>("nvmlDeviceGetUUID");
    if (get_count == nullptr || get_uuid == nullptr || get_count(&count) != kSuccess) return nullptr;
    for (unsigned i = 0; i < count; ++i) {
      char uuid[kUuidSize] = {};
      Device device = by_index(i);
      if (device != nullptr && get_uuid(device, uuid, sizeof uuid) == kSuccess &&
          std::string_view(uuid).starts_with(prefix)) {
        return device;
      }
    }
    return nullptr;
  }

  // The GPU that an instance is a part of.
  Device of_instance(const std::string& uuid) const {
    Device instance = nullptr;
    Device device = nullptr;
    auto get = library_->function<int(const char*, Device*)>("nvmlDeviceGetHandleByUUID");
    auto parent = library_->function<int(Device, Device*)>("nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
    if (get == nullptr || parent == nullptr || get(uuid.c_str(), &instance) != kSuccess) return nullptr;
    return parent(instance, &device) == kSuccess ? device : nullptr;
  }

  std::string pci_id(Device device) const {
    PciInfo info{};
    auto get = library_->function<int(Device, PciInfo*)>("nvmlDeviceGetPciInfo_v3");
    if (get == nullptr || get(device, &info) != kSuccess) return {};
    return fmt::format("{:04x}:{:02x}:{:02x}.0", info.domain, info.bus, info.device);
  }

 private:
  Result<SharedLibrary> library_;
  bool started_ = false;
};

// Indices are NVML's, in the order of the bus, which is CUDA's too where all GPUs are alike.
Device find_device(const Nvml& nvml, const std::string& id) {
  if (auto index = parse_int(id)) return *index < 0 ? nullptr : nvml.by_index(static_cast<unsigned>(*index));
  if (id.starts_with("GPU-")) return nvml.by_uuid_prefix(id);
  if (id.starts_with("MIG-GPU-")) return nvml.by_uuid_prefix(id.substr(4, id.find('/') - 4));  // MIG-GPU-<uuid>/1/0
  return id.starts_with("MIG-") ? nvml.of_instance(id) : nullptr;
}

}  // namespace

std::vector<std::string> gpu_pci_ids(const std::vector<std::string>& ids) {
  Nvml nvml;
  if (!nvml.started()) return {};
  std::vector<std::string> result;
  for (const std::string& id : ids) {
    Device device = find_device(nvml, id);
    std::string pci_id = device == nullptr ? std::string() : nvml.pci_id(device);
    if (pci_id.empty()) return {};
    result.push_back(std::move(pci_id));
  }
  return result;
}

}  // namespace muster::process
