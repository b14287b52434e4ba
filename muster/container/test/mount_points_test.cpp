#include "muster/container/mount_points.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "muster/base/random.h"

namespace muster::container {
namespace {

namespace fs = std::filesystem;

class MountPoints : public testing::Test {
 protected:
  MountPoints() {
    fs::create_directories(root() / "etc");
    fs::create_directories(base_ / "node/folder");
    std::ofstream(file()) << "of the node\n";
  }
  ~MountPoints() override { fs::remove_all(base_); }

  fs::path root() const { return base_ / "image"; }
  std::string file() const { return base_ / "node/env.sh"; }
  std::string folder() const { return base_ / "node/folder"; }
  Result<void> make(const std::vector<Mount>& mounts) const { return make_file_points(root(), mounts); }

  fs::path base_ = fs::temp_directory_path() / ("muster-mounts-" + random_uuid());
};

TEST_F(MountPoints, AFileGetsAFile) {
  ASSERT_TRUE(make({{file(), "/etc/new"}, {file(), "/opt/deep/er"}}));
  EXPECT_TRUE(fs::is_regular_file(root() / "etc/new"));
  EXPECT_TRUE(fs::is_regular_file(root() / "opt/deep/er"));
  EXPECT_TRUE(fs::is_empty(root() / "etc/new"));
}

TEST_F(MountPoints, WhatIsThereStays) {
  std::ofstream(root() / "etc/old") << "of the image\n";
  ASSERT_TRUE(make({{file(), "/etc/old"}, {folder(), "/etc"}}));
  EXPECT_EQ(fs::file_size(root() / "etc/old"), 13u);
}

TEST_F(MountPoints, DirectoriesAreLeftToTheRuntime) {
  ASSERT_TRUE(make({{folder(), "/new"}}));
  EXPECT_FALSE(fs::exists(root() / "new"));
}

TEST_F(MountPoints, OtherKindsAreRefusedBeforeAnythingIsMade) {
  auto made = make({{file(), "/etc/new"}, {file(), "/etc"}});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().text(), file() +
                                     " cannot be mounted at /etc: it is a file, and a directory is there; mount a "
                                     "file on a file, or a directory on a directory");
  EXPECT_FALSE(fs::exists(root() / "etc/new"));
}

TEST_F(MountPoints, BelowAnotherMountNothingIsMade) {
  const std::vector<Mount> mounts = {{folder(), "/data"}, {file(), "/data/new"}};
  auto made = make(mounts);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().text(),
            fmt::format("{} cannot be mounted at /data/new: there is no {}/new; make it first", file(), folder()));
  EXPECT_FALSE(fs::exists(root() / "data"));
  std::ofstream(folder() + "/new") << "";
  EXPECT_TRUE(make(mounts));
}

TEST_F(MountPoints, TheNodesNamesGetFiles) {
  std::ofstream(root() / "etc/passwd") << "of the image\n";
  EXPECT_TRUE(make_system_points(root()).empty());
  EXPECT_TRUE(fs::is_empty(root() / "etc/hosts"));
  EXPECT_EQ(fs::file_size(root() / "etc/passwd"), 13u);
}

TEST_F(MountPoints, NamesThatCannotGetFilesAreSaid) {
  fs::remove_all(root() / "etc");
  fs::create_directory_symlink(folder(), root() / "etc");
  const auto missing = make_system_points(root());
  EXPECT_NE(std::find(missing.begin(), missing.end(), "/etc/hosts"), missing.end());
  EXPECT_FALSE(fs::exists(folder() + "/hosts"));
}

TEST_F(MountPoints, ALinkOutOfTheImageIsNotFollowed) {
  fs::create_directory_symlink(folder(), root() / "link");
  auto made = make({{file(), "/link/new"}});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().text().find("/link cannot be made: Not a directory; name a file that the image has"),
            std::string::npos)
      << made.error().text();
  EXPECT_FALSE(fs::exists(folder() + "/new"));
}

}  // namespace
}  // namespace muster::container
