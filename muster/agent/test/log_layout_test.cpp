#include "muster/agent/log_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "muster/agent/test/output_harness.h"

namespace muster::agent {
namespace {

using ::testing::MatchesRegex;
using testing::TemporaryDirectory;
namespace fs = std::filesystem;

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

void touch(const std::string& path) { Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)); }

// TMPDIR is the test's own while it runs.
class LogLayoutTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* before = ::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", directory_.path().c_str(), 1);
  }
  void TearDown() override { before_.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before_.c_str(), 1); }
  TemporaryDirectory directory_;
  std::string before_;
  JobSpec job_;
};

TEST_F(LogLayoutTest, TorchrunsTree) {
  job_.flavor = Flavor::kTorchrun;
  job_.run_id = "job7";
  job_.output.log_dir = directory_.path() + "/a/b";
  auto layout = LogLayout::create(job_);
  ASSERT_TRUE(layout) << layout.error().text();
  EXPECT_THAT(layout->run_dir(), MatchesRegex(job_.output.log_dir + "/job7_[a-z0-9_]+"));
  EXPECT_EQ(layout->run_dir().size(), job_.output.log_dir.size() + 6 + 8);
  EXPECT_EQ(mode_of(layout->run_dir()), 0700u);
  ASSERT_TRUE(layout->make_attempt(0, 2));
  ASSERT_TRUE(layout->make_attempt(1, 2));
  EXPECT_EQ(layout->stream_file(1, 0, Stream::kStderr), layout->run_dir() + "/attempt_1/0/stderr.log");
  EXPECT_EQ(layout->error_file(0, 1), layout->run_dir() + "/attempt_0/1/error.json");
  EXPECT_EQ(layout->filtered_file(0, Stream::kStdout), layout->run_dir() + "/attempt_0/filtered_stdout.log");
  EXPECT_TRUE(fs::is_directory(layout->worker_dir(1, 1)));
  layout->remove_if_temporary(false);
  EXPECT_TRUE(fs::is_directory(layout->run_dir()));
}

TEST_F(LogLayoutTest, NodesOfAJobShareATree) {
  job_.run_id = "job7";
  job_.output.log_dir = directory_.path() + "/logs";
  job_.membership.emplace();
  for (const char* host : {"n1", "n2"}) {
    job_.host = host;
    auto layout = LogLayout::create(job_);
    ASSERT_TRUE(layout) << layout.error().text();
    ASSERT_TRUE(layout->join_job("0a1b"));
    const int first_rank = job_.host == "n2" ? 4 : 0;
    ASSERT_TRUE(layout->make_attempt(2, 4, first_rank));
    const std::string directory = job_.output.log_dir + "/job7_0a1b/r2/" + host;
    EXPECT_TRUE(fs::is_directory(directory));
    EXPECT_EQ(layout->stream_file(2, 1, Stream::kStdout), fmt::format("{}/{}.out", directory, first_rank + 1));
    EXPECT_EQ(layout->stream_file(2, 0, Stream::kStderr), fmt::format("{}/{}.err", directory, first_rank));
    EXPECT_EQ(layout->error_file(2, 0), fmt::format("{}/{}.error.json", directory, first_rank));
  }
}

TEST_F(LogLayoutTest, ATemporaryTreeIsRemovedUnlessItHasErrorFiles) {
  for (Flavor flavor : {Flavor::kMuster, Flavor::kTorchrun}) {
    job_.flavor = flavor;
    auto layout = LogLayout::create(job_);
    ASSERT_TRUE(layout);
    EXPECT_THAT(layout->run_dir(),
                ::testing::StartsWith(directory_.path() + (flavor == Flavor::kMuster ? "/muster_" : "/torchelastic_")));
    ASSERT_TRUE(layout->make_attempt(0, 1));
    touch(layout->error_file(0, 0));
    EXPECT_TRUE(fs::exists(layout->error_file(0, 0)));
    layout->remove_if_temporary(true);
    EXPECT_TRUE(fs::exists(layout->error_file(0, 0)));
    layout->remove_if_temporary(false);
    EXPECT_TRUE(fs::is_empty(directory_.path()));

    auto unused = LogLayout::create(job_);
    ASSERT_TRUE(unused);
    ASSERT_TRUE(unused->make_attempt(0, 1));
    unused->remove_if_temporary(true);
    EXPECT_TRUE(fs::is_empty(directory_.path()));
  }
}

TEST_F(LogLayoutTest, FilesThatWereAskedForAreKept) {
  job_.output.tee = {{0, 3}};
  auto layout = LogLayout::create(job_);
  ASSERT_TRUE(layout);
  ASSERT_TRUE(layout->make_attempt(0, 1));
  layout->remove_if_temporary(false);
  EXPECT_TRUE(fs::is_directory(layout->worker_dir(0, 0)));
}

TEST_F(LogLayoutTest, DevNullDisablesEverything) {
  job_.output.log_dir = "/dev/null";
  auto layout = LogLayout::create(job_);
  ASSERT_TRUE(layout);
  EXPECT_TRUE(layout->disabled());
  EXPECT_EQ(layout->error_file(0, 0), "");
  EXPECT_TRUE(layout->make_attempt(0, 4));
}

TEST_F(LogLayoutTest, AFileOrAnImpossiblePathIsAUsageError) {
  job_.output.log_dir = directory_.path() + "/file";
  touch(job_.output.log_dir);
  auto file = LogLayout::create(job_);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(file.error().text(), ::testing::HasSubstr("it is a file"));
  job_.output.log_dir = "/proc/nowhere";
  auto nowhere = LogLayout::create(job_);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().kind, ErrorKind::kUsage);
}

TEST_F(LogLayoutTest, ASlashInTheRunIdMakesNoDirectory) {
  job_.output.log_dir = directory_.path();
  job_.run_id = "a/b";
  auto layout = LogLayout::create(job_);
  ASSERT_TRUE(layout);
  EXPECT_THAT(layout->run_dir(), ::testing::StartsWith(directory_.path() + "/a_b_"));
}

}  // namespace
}  // namespace muster::agent
