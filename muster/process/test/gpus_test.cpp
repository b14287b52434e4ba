#include "muster/process/gpus.h"

#include <gtest/gtest.h>

#include <map>

#include "helpers.h"

namespace muster::process {
namespace {

using Ids = std::vector<std::string>;

// A machine with three NVIDIA and two AMD devices, to see that a variable is believed before it.
class Gpus : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* id : {"0000:07:00.0", "0000:0f:00.0", "0000:47:00.0"}) {
      root_.write(std::string("proc/driver/nvidia/gpus/") + id + "/information", "Model: H200\n");
    }
    int node = 0;
    for (const char* id : {"0", "0", "51234", "4321"}) {
      root_.write("sys/class/kfd/kfd/topology/nodes/" + std::to_string(node++) + "/gpu_id", std::string(id) + "\n");
    }
  }
  GpuCount count(std::map<std::string, std::string> variables) {
    return count_gpus(test::environment(std::move(variables)), root_.path());
  }
  test::TempDir root_;
};

TEST(VisibleDevices, AsCudaReadsThem) {
  const std::pair<const char*, Ids> cases[] = {
      {"0,1", {"0", "1"}},
      {" 3 , 2", {"3", "2"}},
      {"", {}},
      {"-1", {}},
      {"0,-1,1", {"0"}},
      {"NoDevFiles", {}},
      {"none", {}},
      {"0,1,x,2", {"0", "1"}},
      {"0,,1", {"0"}},
      {"0,1,", {"0", "1"}},
      {"1gpu2,2ampere", {"1", "2"}},
      {"+1,01", {}},
      {"0,0", {}},
      {"2,1,2", {}},
      {"99999999999999999999", {}},
      {"GPU-8932f937", {"GPU-8932f937"}},
      {"GPU-aa,GPU-bb", {"GPU-aa", "GPU-bb"}},
      {"GPU-aa,GPU-aa", {}},
      {"GPU-aa,1", {"GPU-aa"}},
      {"1,GPU-aa", {"1"}},
      {"MIG-1,MIG-2,GPU-3", {"MIG-1", "MIG-2"}},
      {"MIG-GPU-aa/1/0,MIG-GPU-aa/2/0", {"MIG-GPU-aa/1/0", "MIG-GPU-aa/2/0"}},
  };
  for (const auto& [value, expected] : cases) EXPECT_EQ(parse_visible_devices(value), expected) << value;
}

TEST(ZeMask, CardsAndTiles) {
  EXPECT_EQ(parse_ze_mask("0,1", false), (Ids{"0", "1"}));
  EXPECT_EQ(parse_ze_mask("0.0,0.1,1", false), (Ids{"0.0", "0.1", "1"}));
  EXPECT_EQ(parse_ze_mask("0.0,0.1,1", true), (Ids{"0", "1"}));
  EXPECT_EQ(parse_ze_mask("", false), Ids{});
  EXPECT_EQ(parse_ze_mask("0,0,x,1.,.1,1.2.3", false), Ids{"0"});
}

TEST(GpuAmount, Forms) {
  EXPECT_EQ(parse_gpu_amount("4"), 4);
  EXPECT_EQ(parse_gpu_amount("v100:4"), 4);
  EXPECT_EQ(parse_gpu_amount("gpu:a100:2,gpu:v100:1(S:0-1)"), 3);
  EXPECT_EQ(parse_gpu_amount("0"), 0);
  for (const char* text : {"", "v100", "v100:", "-1", "4,", "9999999", "4096,1"}) {
    EXPECT_EQ(parse_gpu_amount(text), std::nullopt) << text;
  }
}

TEST(GpuList, Forms) {
  EXPECT_EQ(parse_gpu_list("0,2-4"), (Ids{"0", "2", "3", "4"}));
  EXPECT_EQ(parse_gpu_list("gpu:0,1"), (Ids{"0", "1"}));
  EXPECT_EQ(parse_gpu_list("1,1"), Ids{"1"});
  EXPECT_EQ(parse_gpu_list(""), Ids{});
  for (const char* text : {"a", "0,", "3-1", "-1", "0-999999999999", "1-"}) {
    EXPECT_EQ(parse_gpu_list(text), std::nullopt) << text;
  }
}

TEST_F(Gpus, CudaDecidesAlone) {
  GpuCount gpus = count({{"CUDA_VISIBLE_DEVICES", "2,3"}, {"ROCR_VISIBLE_DEVICES", "0"}, {"SLURM_GPUS_ON_NODE", "8"}});
  EXPECT_EQ(gpus.count, 2);
  EXPECT_EQ(gpus.ids, (Ids{"2", "3"}));
  EXPECT_EQ(gpus.source, "CUDA_VISIBLE_DEVICES=2,3");
  EXPECT_EQ(gpus.visible_variable, "CUDA_VISIBLE_DEVICES");
}

TEST_F(Gpus, EmptyMeansNone) {
  GpuCount gpus = count({{"CUDA_VISIBLE_DEVICES", ""}});
  EXPECT_EQ(gpus.count, 0);
  EXPECT_EQ(gpus.source, "CUDA_VISIBLE_DEVICES=");
}

TEST_F(Gpus, RocmAndHip) {
  GpuCount rocr = count({{"ROCR_VISIBLE_DEVICES", "4,5,6"}});
  EXPECT_EQ(rocr.ids, (Ids{"4", "5", "6"}));
  EXPECT_EQ(rocr.visible_variable, "ROCR_VISIBLE_DEVICES");
  GpuCount hip = count({{"HIP_VISIBLE_DEVICES", "1"}});
  EXPECT_EQ(hip.ids, Ids{"1"});
  EXPECT_EQ(hip.visible_variable, "HIP_VISIBLE_DEVICES");
  GpuCount both = count({{"ROCR_VISIBLE_DEVICES", "4,5,6"}, {"HIP_VISIBLE_DEVICES", "2,0,3,1"}});
  EXPECT_EQ(both.ids, (Ids{"2", "0"}));  // the third is outside of the three: the list ends there
  EXPECT_EQ(both.source, "HIP_VISIBLE_DEVICES=2,0,3,1 of ROCR_VISIBLE_DEVICES=4,5,6");
}

TEST_F(Gpus, LevelZero) {
  EXPECT_EQ(count({{"ZE_AFFINITY_MASK", "0.0,0.1,1.0,1.1"}}).count, 4);
  GpuCount cards = count({{"ZE_AFFINITY_MASK", "0.0,0.1,1.0"}, {"ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE"}});
  EXPECT_EQ(cards.ids, (Ids{"0", "1"}));
  EXPECT_EQ(cards.visible_variable, "ZE_AFFINITY_MASK");
}

TEST_F(Gpus, Scheduler) {
  EXPECT_EQ(count({{"SLURM_STEP_GPUS", "1,3"}, {"SLURM_JOB_GPUS", "0-3"}}).ids, (Ids{"1", "3"}));
  EXPECT_EQ(count({{"SLURM_JOB_GPUS", "0-3"}, {"SLURM_GPUS_ON_NODE", "2"}}).count, 4);
  EXPECT_EQ(count({{"SLURM_GPUS_ON_NODE", "2"}}).ids, (Ids{"0", "1"}));
  EXPECT_EQ(count({{"SLURM_GPUS_PER_NODE", "v100:4"}}).count, 4);
  EXPECT_EQ(count({{"SLURM_GPUS_ON_NODE", "0"}}).source, "SLURM_GPUS_ON_NODE=0");
  EXPECT_EQ(count({{"SLURM_GPUS_ON_NODE", "what"}}).source, "/proc/driver/nvidia/gpus");
}

TEST(GpuShares, FollowOneAnother) {
  const GpuCount five{5, "x", {"GPU-a", "GPU-b", "GPU-c", "GPU-d", "GPU-e"}, "CUDA_VISIBLE_DEVICES"};
  EXPECT_EQ(share_of(five, 0, 2).ids, (Ids{"GPU-a", "GPU-b"}));
  EXPECT_EQ(share_of(five, 1, 2).ids, (Ids{"GPU-c", "GPU-d", "GPU-e"}));
  EXPECT_EQ(share_of(five, 1, 2).count, 3);
  EXPECT_EQ(share_of(five, 6, 7).ids, (Ids{"GPU-b"})) << "too few: shared";
  EXPECT_EQ(share_of({}, 1, 2).count, 0);
}

TEST_F(Gpus, Drivers) {
  GpuCount nvidia = count({});
  EXPECT_EQ(nvidia.count, 3);
  EXPECT_EQ(nvidia.source, "/proc/driver/nvidia/gpus");
  EXPECT_EQ(nvidia.ids, (Ids{"0", "1", "2"}));
  std::filesystem::remove_all(root_ / "proc");
  GpuCount amd = count({});
  EXPECT_EQ(amd.count, 2);
  EXPECT_EQ(amd.source, "/sys/class/kfd/kfd/topology/nodes");
  EXPECT_EQ(amd.visible_variable, "HIP_VISIBLE_DEVICES");
  std::filesystem::remove_all(root_ / "sys");
  EXPECT_EQ(count({}).count, 0);
  EXPECT_EQ(count({}).source, "");
}

}  // namespace
}  // namespace muster::process
