#include "muster/process/binding.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "muster/base/strings.h"
#include "muster/process/cpu_layout.h"
#include "muster/process/cpus.h"

// Debian's static hwloc asks libudev for the vendor names of disks, which binding has no use for. These stand in for
// it, so that `muster` needs no library but glibc: without a udev context hwloc goes on without those names. Hidden, so
// that no library loaded at run time takes them for the real ones; here, so that whoever links hwloc has them.
#define MUSTER_UDEV_STUB extern "C" __attribute__((visibility("hidden")))
MUSTER_UDEV_STUB void* udev_new() { return nullptr; }
MUSTER_UDEV_STUB void* udev_unref(void*) { return nullptr; }
MUSTER_UDEV_STUB void* udev_device_new_from_subsystem_sysname(void*, const char*, const char*) { return nullptr; }
MUSTER_UDEV_STUB void* udev_device_unref(void*) { return nullptr; }
MUSTER_UDEV_STUB const char* udev_device_get_property_value(void*, const char*) { return nullptr; }

namespace muster::process {
namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, Destroy>;

// hwloc would load every plugin installed on the machine (OpenCL, X11, …) together with another copy of itself.
class NoPlugins {
 public:
  NoPlugins() {
    if (const char* old = getenv(kVariable)) old_ = old;
    setenv(kVariable, "/nonexistent", 1);
  }
  ~NoPlugins() { old_ ? setenv(kVariable, old_->c_str(), 1) : unsetenv(kVariable); }
  NoPlugins(const NoPlugins&) = delete;
  NoPlugins& operator=(const NoPlugins&) = delete;

 private:
  static constexpr const char* kVariable = "HWLOC_PLUGINS_PATH";
  std::optional<std::string> old_;
};

Result<Topology> load(const BindingRequest& request) {
  NoPlugins guard;
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return system_error(errno, "hwloc_topology_init");
  Topology topology(raw);
  if (!request.gpu_pci_ids.empty()) hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (!request.topology_xml.empty() && hwloc_topology_set_xml(raw, request.topology_xml.c_str()) != 0) {
    return system_error(errno, fmt::format("cannot read the topology {}", request.topology_xml));
  }
  if (hwloc_topology_load(raw) != 0) return system_error(errno, "hwloc cannot read this machine's topology");
  return topology;
}

CpuSet to_set(hwloc_const_bitmap_t bitmap) {
  CpuSet cpus;
  for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0; cpu = hwloc_bitmap_next(bitmap, cpu)) cpus.push_back(cpu);
  return cpus;
}

Bitmap allowed_cpus(hwloc_topology_t topology, const BindingRequest& request) {
  Bitmap allowed(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology)));
  std::vector<int> cpus = request.allowed;
  if (cpus.empty() && request.topology_xml.empty()) cpus = affinity_cpus();
  if (cpus.empty()) return allowed;
  Bitmap mask(hwloc_bitmap_alloc());
  for (int cpu : cpus) hwloc_bitmap_set(mask.get(), static_cast<unsigned>(cpu));
  return mask;
}

CpuSet usable(hwloc_obj_t object, hwloc_const_bitmap_t allowed) {
  Bitmap both(hwloc_bitmap_alloc());
  hwloc_bitmap_and(both.get(), object->cpuset, allowed);
  return to_set(both.get());
}

// Sets of all objects of a type. Memory without CPUs (on a GPU, on CXL) and a second memory of the same CPUs (HBM) add
// nothing.
std::vector<CpuSet> sets_of(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_bitmap_t allowed) {
  std::vector<CpuSet> sets;
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
    CpuSet cpus = usable(object, allowed);
    if (!cpus.empty() && std::find(sets.begin(), sets.end(), cpus) == sets.end()) sets.push_back(std::move(cpus));
  }
  return sets;
}

// Of the first type that the machine has: virtual machines often show neither sockets nor caches.
std::vector<CpuSet> first_of(hwloc_topology_t topology, hwloc_const_bitmap_t allowed,
                             std::initializer_list<hwloc_obj_type_t> types) {
  for (hwloc_obj_type_t type : types) {
    if (auto sets = sets_of(topology, type, allowed); !sets.empty()) return sets;
  }
  return {to_set(allowed)};
}

CpuLayout layout_of(hwloc_topology_t topology, hwloc_const_bitmap_t allowed) {
  return {.nodes = first_of(topology, allowed, {HWLOC_OBJ_NUMANODE, HWLOC_OBJ_MACHINE}),
          .sockets = first_of(topology, allowed, {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_MACHINE}),
          .complexes = first_of(topology, allowed,
                                {HWLOC_OBJ_L5CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE,
                                 HWLOC_OBJ_L1CACHE, HWLOC_OBJ_PACKAGE, HWLOC_OBJ_MACHINE}),
          .cores = first_of(topology, allowed, {HWLOC_OBJ_CORE, HWLOC_OBJ_PU})};
}

CpuSet cpus_near(hwloc_topology_t topology, const std::string& pci_id, hwloc_const_bitmap_t allowed) {
  if (pci_id.empty()) return {};
  hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology, pci_id.c_str());
  hwloc_obj_t ancestor = device == nullptr ? nullptr : hwloc_get_non_io_ancestor_obj(topology, device);
  return ancestor == nullptr ? CpuSet{} : usable(ancestor, allowed);
}

}  // namespace

std::optional<Binding> parse_binding(std::string_view text) {
  if (text == "node") return Binding::kNode;
  if (text == "socket") return Binding::kSocket;
  if (text == "exclusive") return Binding::kExclusive;
  if (text == "core-complex") return Binding::kCoreComplex;
  return std::nullopt;
}

Result<std::vector<std::vector<int>>> bind_workers(const BindingRequest& request) {
  MUSTER_TRY(Topology topology, load(request));
  Bitmap allowed = allowed_cpus(topology.get(), request);
  std::vector<CpuSet> near(static_cast<size_t>(request.workers));
  for (size_t i = 0; i < near.size() && i < request.gpu_pci_ids.size(); ++i) {
    near[i] = cpus_near(topology.get(), request.gpu_pci_ids[i], allowed.get());
  }
  return assign_cpus(request.binding, layout_of(topology.get(), allowed.get()), near);
}

std::string cpu_ranges(const std::vector<int>& cpus) { return number_ranges(cpus, ","); }

}  // namespace muster::process
