#include "muster/process/binding.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hwloc.h>
#include <stdlib.h>

#include <algorithm>

#include "helpers.h"
#include "muster/process/cpus.h"

namespace muster::process {
namespace {

using Sets = std::vector<std::vector<int>>;

std::vector<int> range(int first, int last) {
  std::vector<int> cpus;
  for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  return cpus;
}

std::string synthetic_xml(const char* description) {
  hwloc_topology_t topology;
  hwloc_topology_init(&topology);
  hwloc_topology_set_synthetic(topology, description);
  hwloc_topology_load(topology);
  char* text = nullptr;
  int size = 0;
  hwloc_topology_export_xmlbuffer(topology, &text, &size, 0);
  std::string xml(text);
  hwloc_free_xmlbuffer(topology, text);
  hwloc_topology_destroy(topology);
  return xml;
}

// Hangs a bridge with one GPU below the n-th object of a type.
void attach_gpu(std::string& xml, const std::string& type, int n, const std::string& bus) {
  size_t at = 0;
  for (int i = 0; i <= n; ++i) at = xml.find("<object type=\"" + type + "\"", at + 1);
  ASSERT_NE(at, std::string::npos);
  size_t line = xml.rfind('\n', at) + 1;
  std::string end = "\n" + std::string(at - line, ' ') + "</object>";
  std::string bridge = fmt::format(
      "\n<object type=\"Bridge\" gp_index=\"9{0}0\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[{1}-{1}]\">"
      "<object type=\"PCIDev\" gp_index=\"9{0}1\" pci_busid=\"0000:{1}:00.0\" "
      "pci_type=\"0302 [10de:2335] [10de:18be] a1\" pci_link_speed=\"0.000000\"/></object>",
      n, bus);
  xml.insert(xml.find(end, at), bridge);
}

class BindWorkers : public ::testing::Test {
 protected:
  void SetUp() override { setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1); }
  void TearDown() override { unsetenv("HWLOC_PLUGINS_PATH"); }

  Sets bind(Binding binding, int workers, const std::string& xml, std::vector<std::string> gpus = {},
            std::vector<int> allowed = {}) {
    auto cpus = bind_workers({.binding = binding,
                              .workers = workers,
                              .gpu_pci_ids = std::move(gpus),
                              .topology_xml = dir_.write("topology.xml", xml),
                              .allowed = std::move(allowed)});
    EXPECT_TRUE(cpus.ok()) << cpus.error().text();
    return cpus.ok() ? *cpus : Sets{};
  }
  test::TempDir dir_;
};

TEST(Binding, Names) {
  EXPECT_EQ(parse_binding("node"), Binding::kNode);
  EXPECT_EQ(parse_binding("socket"), Binding::kSocket);
  EXPECT_EQ(parse_binding("exclusive"), Binding::kExclusive);
  EXPECT_EQ(parse_binding("core-complex"), Binding::kCoreComplex);
  EXPECT_EQ(parse_binding("Node"), std::nullopt);
  EXPECT_EQ(parse_binding(""), std::nullopt);
}

TEST(Binding, Ranges) {
  EXPECT_EQ(cpu_ranges({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(cpu_ranges({5}), "5");
  EXPECT_EQ(cpu_ranges({1, 3, 4}), "1,3-4");
  EXPECT_EQ(cpu_ranges({}), "");
}

TEST_F(BindWorkers, OneSocket) {
  std::string xml = synthetic_xml("pack:1 core:4 pu:2");
  EXPECT_EQ(bind(Binding::kNode, 2, xml), Sets(2, range(0, 7)));
  EXPECT_EQ(bind(Binding::kSocket, 1, xml), Sets{range(0, 7)});
  EXPECT_EQ(bind(Binding::kExclusive, 3, xml), (Sets{range(0, 3), {4, 5}, {6, 7}}));
}

TEST_F(BindWorkers, TwoSocketsOfTwoNodes) {
  std::string xml = synthetic_xml("pack:2 group:2 [numa] core:2 pu:1");
  EXPECT_EQ(bind(Binding::kNode, 5, xml), (Sets{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {0, 1}}));
  EXPECT_EQ(bind(Binding::kSocket, 3, xml), (Sets{range(0, 3), range(4, 7), range(0, 3)}));
  EXPECT_EQ(bind(Binding::kExclusive, 8, xml), (Sets{{0}, {2}, {4}, {6}, {1}, {3}, {5}, {7}}));
}

TEST_F(BindWorkers, CoreComplexes) {
  std::string xml = synthetic_xml("pack:1 [numa] l3:4 core:2 pu:2");
  EXPECT_EQ(bind(Binding::kCoreComplex, 5, xml),
            (Sets{range(0, 3), range(4, 7), range(8, 11), range(12, 15), range(0, 3)}));
  // Without any L3 the largest cache there is counts.
  EXPECT_EQ(bind(Binding::kCoreComplex, 2, synthetic_xml("pack:1 l2:2 core:2 pu:1")), (Sets{{0, 1}, {2, 3}}));
}

TEST_F(BindWorkers, NearTheirGpus) {
  std::string xml = synthetic_xml("pack:2 [numa] l3:2 core:2 pu:2");
  attach_gpu(xml, "Package", 0, "18");
  attach_gpu(xml, "Package", 1, "9a");
  std::vector<std::string> gpus = {"0000:9a:00.0", "00000000:9A:00.0", "0000:18:00.0"};
  EXPECT_EQ(bind(Binding::kNode, 3, xml, gpus), (Sets{range(8, 15), range(8, 15), range(0, 7)}));
  EXPECT_EQ(bind(Binding::kSocket, 3, xml, gpus), (Sets{range(8, 15), range(8, 15), range(0, 7)}));
  EXPECT_EQ(bind(Binding::kExclusive, 3, xml, gpus), (Sets{range(8, 11), range(12, 15), range(0, 7)}));
  EXPECT_EQ(bind(Binding::kCoreComplex, 3, xml, gpus), (Sets{range(8, 11), range(12, 15), range(0, 3)}));
}

TEST_F(BindWorkers, AGpuThatNobodyKnowsCountsAsNone) {
  std::string xml = synthetic_xml("pack:2 [numa] core:2 pu:1");
  attach_gpu(xml, "Package", 1, "9a");
  EXPECT_EQ(bind(Binding::kNode, 3, xml, {"0000:77:00.0", "", "0000:9a:00.0"}), (Sets{{0, 1}, {2, 3}, {2, 3}}));
}

TEST_F(BindWorkers, WithinTheMask) {
  std::string xml = synthetic_xml("pack:2 [numa] core:4 pu:1");
  attach_gpu(xml, "Package", 0, "18");
  std::vector<int> allowed = {5, 6, 7};
  // The GPU's own node is not ours to use: better far away than not at all.
  EXPECT_EQ(bind(Binding::kNode, 2, xml, {"0000:18:00.0", ""}, allowed), Sets(2, allowed));
  EXPECT_EQ(bind(Binding::kExclusive, 2, xml, {}, allowed), (Sets{{5, 6}, {7}}));
}

TEST_F(BindWorkers, ThisMachine) {
  auto mask = affinity_cpus();
  for (Binding binding : {Binding::kNode, Binding::kSocket, Binding::kExclusive, Binding::kCoreComplex}) {
    auto cpus = bind_workers({.binding = binding, .workers = 1, .gpu_pci_ids = {"0000:ff:1f.7"}});
    ASSERT_TRUE(cpus.ok()) << cpus.error().text();
    ASSERT_EQ(cpus->size(), 1U);
    EXPECT_FALSE(cpus->front().empty());
    EXPECT_TRUE(std::includes(mask.begin(), mask.end(), cpus->front().begin(), cpus->front().end()));
  }
}

TEST_F(BindWorkers, AnUnreadableTopologyIsAnError) {
  auto cpus = bind_workers({.binding = Binding::kNode, .workers = 1, .topology_xml = dir_ / "absent.xml"});
  ASSERT_FALSE(cpus.ok());
  EXPECT_EQ(cpus.error().kind, ErrorKind::kSystem);
}

TEST_F(BindWorkers, PluginsSettingIsLeftAlone) {
  setenv("HWLOC_PLUGINS_PATH", "/mine", 1);
  ASSERT_TRUE(bind_workers({.workers = 1}).ok());
  EXPECT_STREQ(getenv("HWLOC_PLUGINS_PATH"), "/mine");
}

TEST(GpuPciIds, NoneForWhatIsNoGpu) {
  EXPECT_TRUE(gpu_pci_ids({"99"}).empty());
  EXPECT_TRUE(gpu_pci_ids({"GPU-00000000-not-there"}).empty());
  EXPECT_TRUE(gpu_pci_ids({"-1"}).empty());
}

TEST(GpuPciIds, OfARealGpu) {
  auto ids = gpu_pci_ids({"0"});
  if (ids.empty()) GTEST_SKIP() << "no GPU that NVML knows";
  ASSERT_EQ(ids.size(), 1U);
  EXPECT_TRUE(std::filesystem::exists("/sys/bus/pci/devices/" + ids[0])) << ids[0];
  auto cpus = bind_workers({.binding = Binding::kNode, .workers = 1, .gpu_pci_ids = ids});
  ASSERT_TRUE(cpus.ok());
  EXPECT_FALSE(cpus->front().empty());
}

}  // namespace
}  // namespace muster::process
