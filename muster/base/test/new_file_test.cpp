#include "muster/base/new_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "muster/base/fd.h"

namespace muster {
namespace {

using testing::HasSubstr;

// No file may grow beyond this many bytes: what a full disk looks like, and needs no disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

class WriteNewFile : public testing::Test {
 protected:
  WriteNewFile() { EXPECT_NE(::mkdtemp(folder_.data()), nullptr); }
  ~WriteNewFile() override { std::filesystem::remove_all(folder_); }

  std::string folder_ = testing::TempDir() + "muster_new_XXXXXX";
};

TEST_F(WriteNewFile, IsAllThereIs) {
  ASSERT_TRUE(write_new_file(folder_ + "/r.json", "whole\n"));
  EXPECT_EQ(*read_file(folder_ + "/r.json"), "whole\n");
  auto files = std::filesystem::directory_iterator(folder_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(WriteNewFile, LeavesNothingWhereItDoesNotFit) {
  Result<void> written;
  {
    FullDisk full(3);
    written = write_new_file(folder_ + "/r.json", "whole\n");
  }
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().text(), "cannot write " + folder_ + "/r.json: write: File too large");
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(WriteNewFile, SaysWhichFileCannotBe) {
  auto written = write_new_file(folder_ + "/none/r.json", "whole\n");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().text(), "cannot write " + folder_ + "/none/r.json: No such file or directory");
  std::filesystem::create_directory(folder_ + "/taken");
  EXPECT_THAT(write_new_file(folder_ + "/taken", "whole\n").error().text(), HasSubstr("Is a directory"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/taken"));
}

}  // namespace
}  // namespace muster
