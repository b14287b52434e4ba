#include "muster/process/cpu_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace muster::process {
namespace {

bool overlap(const CpuSet& a, const CpuSet& b) {
  return std::any_of(a.begin(), a.end(), [&](int cpu) { return std::binary_search(b.begin(), b.end(), cpu); });
}

// Which of `sets` touch `where`.
std::vector<size_t> touching(const std::vector<CpuSet>& sets, const CpuSet& where) {
  std::vector<size_t> result;
  for (size_t i = 0; i < sets.size(); ++i) {
    if (overlap(sets[i], where)) result.push_back(i);
  }
  return result;
}

// For each worker one of `sets`: of those next to its GPU (all, when it has none or we may use none of them) the one
// that has most capacity left for another worker. With equal capacities that is round robin.
std::vector<size_t> deal(const std::vector<CpuSet>& sets, const std::vector<size_t>& capacity,
                         const std::vector<CpuSet>& near) {
  std::vector<size_t> load(sets.size());
  std::vector<size_t> chosen;
  for (const CpuSet& locality : near) {
    std::vector<size_t> candidates = touching(sets, locality);
    if (candidates.empty()) {
      for (size_t i = 0; i < sets.size(); ++i) candidates.push_back(i);
    }
    size_t best = *std::max_element(candidates.begin(), candidates.end(), [&](size_t a, size_t b) {
      return capacity[a] * (load[b] + 1) < capacity[b] * (load[a] + 1);
    });
    ++load[best];
    chosen.push_back(best);
  }
  return chosen;
}

std::vector<CpuSet> whole_sets(const std::vector<CpuSet>& sets, const std::vector<CpuSet>& near) {
  std::vector<CpuSet> result;
  for (size_t index : deal(sets, std::vector<size_t>(sets.size(), 1), near)) result.push_back(sets[index]);
  return result;
}

std::map<size_t, std::vector<size_t>> workers_by_node(const std::vector<size_t>& node_of) {
  std::map<size_t, std::vector<size_t>> result;
  for (size_t worker = 0; worker < node_of.size(); ++worker) result[node_of[worker]].push_back(worker);
  return result;
}

// Parts of a node: its cores or its complexes.
std::vector<std::vector<CpuSet>> parts_of_nodes(const std::vector<CpuSet>& nodes, const std::vector<CpuSet>& parts) {
  std::vector<std::vector<CpuSet>> result(nodes.size());
  for (size_t node = 0; node < nodes.size(); ++node) {
    for (const CpuSet& part : parts) {
      CpuSet inside;
      std::set_intersection(part.begin(), part.end(), nodes[node].begin(), nodes[node].end(),
                            std::back_inserter(inside));
      if (!inside.empty()) result[node].push_back(std::move(inside));
    }
    if (result[node].empty()) result[node].push_back(nodes[node]);
  }
  return result;
}

std::vector<size_t> sizes(const std::vector<std::vector<CpuSet>>& lists) {
  std::vector<size_t> result;
  result.reserve(lists.size());
  for (const auto& list : lists) result.push_back(list.size());
  return result;
}

Result<std::vector<CpuSet>> exclusive(const CpuLayout& layout, const std::vector<CpuSet>& near) {
  auto cores = parts_of_nodes(layout.nodes, layout.cores);
  std::vector<CpuSet> result(near.size());
  for (const auto& [node, workers] : workers_by_node(deal(layout.nodes, sizes(cores), near))) {
    const std::vector<CpuSet>& all = cores[node];
    if (all.size() < workers.size()) {
      return Error{ErrorKind::kUsage,
                   fmt::format("--numa-binding exclusive: {} workers belong to the CPUs {}, which are only {} core{}",
                               workers.size(), cpu_ranges(layout.nodes[node]), all.size(), all.size() == 1 ? "" : "s"),
                   "use --numa-binding node, or fewer workers"};
    }
    size_t next = 0;
    for (size_t i = 0; i < workers.size(); ++i) {
      size_t share = all.size() / workers.size() + (i < all.size() % workers.size() ? 1 : 0);
      CpuSet& cpus = result[workers[i]];
      for (; share > 0; --share, ++next) cpus.insert(cpus.end(), all[next].begin(), all[next].end());
      std::sort(cpus.begin(), cpus.end());
    }
  }
  return result;
}

std::vector<CpuSet> core_complexes(const CpuLayout& layout, const std::vector<CpuSet>& near) {
  auto complexes = parts_of_nodes(layout.nodes, layout.complexes);
  std::vector<CpuSet> result(near.size());
  for (const auto& [node, workers] : workers_by_node(deal(layout.nodes, sizes(complexes), near))) {
    std::vector<CpuSet>& all = complexes[node];
    // The mask may leave little of some: the fullest first.
    std::stable_sort(all.begin(), all.end(), [](const CpuSet& a, const CpuSet& b) { return a.size() > b.size(); });
    for (size_t i = 0; i < workers.size(); ++i) result[workers[i]] = all[i % all.size()];
  }
  return result;
}

}  // namespace

Result<std::vector<CpuSet>> assign_cpus(Binding binding, const CpuLayout& layout, const std::vector<CpuSet>& near) {
  switch (binding) {
    case Binding::kNode:
      return whole_sets(layout.nodes, near);
    case Binding::kSocket:
      return whole_sets(layout.sockets, near);
    case Binding::kExclusive:
      return exclusive(layout, near);
    case Binding::kCoreComplex:
      return core_complexes(layout, near);
  }
  return std::vector<CpuSet>(near.size());
}

}  // namespace muster::process
