#include "muster/container/storage.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "muster/base/random.h"
#include "muster/base/strings.h"

namespace muster::container {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;

TEST(Leftovers, OfThisNodeAtOnceOfOthersAfterADay) {
  auto is = [](const std::string& entry, std::chrono::seconds age) {
    return is_leftover(entry, ".torch.making.n1", "torch", age);
  };
  EXPECT_TRUE(is(".torch.making.n1", hours(0)));
  EXPECT_FALSE(is(".torch.making.n2", hours(23)));
  EXPECT_TRUE(is(".torch.making.n2", hours(25)));
  for (const char* other : {"torch", "torch.making.n1", ".torch.lock", ".torch2.making.n1", ".other.making.n1"})
    EXPECT_FALSE(is(other, hours(1000))) << other;
}

class Storage : public testing::Test {
 protected:
  Storage() { fs::create_directories(base_); }
  ~Storage() override { fs::remove_all(base_); }

  // Files of a container; a whole one has two.
  void put(const std::string& name, const std::string& maker) const {
    fs::create_directories(base_ / name);
    for (const char* file : {"first", "second"}) std::ofstream(base_ / name / file) << maker;
  }
  std::string text(const std::string& file) const {
    std::ifstream in(base_ / file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  Result<bool> give(const std::string& making) const { return give_name(base_, making, "torch"); }

  fs::path base_ = fs::temp_directory_path() / ("muster-storage-" + random_uuid());
};

TEST_F(Storage, LeftoversAreFoundByName) {
  put(".torch.making.n1", "");
  put(".torch.making.n2", "");
  put("torch", "");
  EXPECT_EQ(leftovers(base_, ".torch.making.n1", "torch"), std::vector<std::string>{".torch.making.n1"});
  EXPECT_TRUE(leftovers(base_ / "none", ".torch.making.n1", "torch").empty());
}

TEST_F(Storage, AContainerGetsItsName) {
  put("a", "n1");
  ASSERT_TRUE(give("a"));
  EXPECT_FALSE(fs::exists(base_ / "a"));
  EXPECT_EQ(text("torch/second"), "n1");
}

TEST_F(Storage, OneThatIsThereStays) {
  put("torch", "n2");
  put("a", "n1");
  EXPECT_EQ(give("a").value(), false);
  EXPECT_EQ(text("torch/first"), "n2");
  EXPECT_TRUE(fs::exists(base_ / "a"));
}

TEST_F(Storage, OneThatIsGoneIsAnError) {
  const auto given = give("a");
  ASSERT_FALSE(given);
  EXPECT_EQ(given.error().message,
            fmt::format("cannot give the container its name {}/torch: No such file or directory", base_.string()));
}

// As on a file system without locks: every node makes one.
TEST_F(Storage, OfManyMakersOneWinsAndNoContainerIsEverHalf) {
  constexpr int kMakers = 8;
  for (int round = 0; round < 20; ++round) {
    std::vector<pid_t> makers;
    for (int i = 0; i < kMakers; ++i) {
      const pid_t maker = ::fork();
      if (maker == 0) {
        const std::string making = "making." + std::to_string(i);
        put(making, making);
        const auto given = give(making);
        const bool whole = !text("torch/first").empty() && text("torch/first") == text("torch/second");
        ::_exit(!given || !whole ? 2 : *given ? 1 : 0);
      }
      makers.push_back(maker);
    }
    int winners = 0;
    for (pid_t maker : makers) {
      int status = 0;
      ::waitpid(maker, &status, 0);
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 2) << status;
      winners += WEXITSTATUS(status);
    }
    EXPECT_EQ(winners, 1);
    fs::remove_all(base_ / "torch");
  }
}

}  // namespace
}  // namespace muster::container
