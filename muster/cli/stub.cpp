// Stands in until process/binding.cpp is there.
#include "muster/process/binding.h"

namespace muster::process {

std::optional<Binding> parse_binding(std::string_view) { return std::nullopt; }
Result<std::vector<std::vector<int>>> bind_workers(const BindingRequest&) { return usage_error("binding is not built in"); }
std::string cpu_ranges(const std::vector<int>& cpus) { return fmt::format("{}", fmt::join(cpus, ",")); }
std::vector<std::string> gpu_pci_ids(const std::vector<std::string>&) { return {}; }

}  // namespace muster::process
