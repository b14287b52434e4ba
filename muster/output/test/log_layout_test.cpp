#include "muster/output/log_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "muster/output/test/output_harness.h"

namespace muster::output {
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
  job::JobSpec job_;
};

TEST_F(LogLayoutTest, TorchrunsTree) {
  job_.flavor = job::Flavor::kTorchrun;
  job_.run_id = "job7";
  job_.output.log_dir = directory_.path() + "/a/b";
  auto layout = LogLayout::create(job_);
  ASSERT_TRUE(layout) << layout.error().text();
  EXPECT_THAT(layout->run_dir(), MatchesRegex(job_.output.log_dir + "/job7_[a-z0-9_]+"));
  EXPECT_EQ(layout->run_dir().size(), job_.output.log_dir.size() + 6 + 8);
  EXPECT_EQ(mode_of(layout->run_dir()), 0700u);
  ASSERT_TRUE(layout->make_attempt(0, 2));
  ASSERT_TRUE(layout->make_attempt(1, 2));
  EXPECT_EQ(layout->stream_file(1, 0, job::Stream::kStderr), layout->run_dir() + "/attempt_1/0/stderr.log");
  EXPECT_EQ(layout->error_file(0, 1), layout->run_dir() + "/attempt_0/1/error.json");
  EXPECT_EQ(layout->filtered_file(0, job::Stream::kStdout), layout->run_dir() + "/attempt_0/filtered_stdout.log");
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
    EXPECT_EQ(layout->stream_file(2, 1, job::Stream::kStdout), fmt::format("{}/{}.out", directory, first_rank + 1));
    EXPECT_EQ(layout->stream_file(2, 0, job::Stream::kStderr), fmt::format("{}/{}.err", directory, first_rank));
    EXPECT_EQ(layout->error_file(2, 0), fmt::format("{}/{}.error.json", directory, first_rank));
  }
}

TEST_F(LogLayoutTest, ATemporaryTreeIsRemovedUnlessItHasErrorFiles) {
  for (job::Flavor flavor : {job::Flavor::kMuster, job::Flavor::kTorchrun}) {
    job_.flavor = flavor;
    auto layout = LogLayout::create(job_);
    ASSERT_TRUE(layout);
    EXPECT_THAT(
        layout->run_dir(),
        ::testing::StartsWith(directory_.path() + (flavor == job::Flavor::kMuster ? "/muster_" : "/torchelastic_")));
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

TEST_F(LogLayoutTest, StartsWithTheSchedulersJob) {
  job_.output.log_dir = directory_.path() + "/logs";
  job_.run_id = "bert";
  job_.scheduler_job = "4711_3";
  EXPECT_THAT(LogLayout::create(job_)->run_dir(), MatchesRegex(job_.output.log_dir + "/4711_3_bert_[a-z0-9_]+"));
  job_.scheduler_job = "bert";
  EXPECT_THAT(LogLayout::create(job_)->run_dir(), MatchesRegex(job_.output.log_dir + "/bert_[a-z0-9_]+")) << "once";
  job_.scheduler_job = "4711";
  job_.membership.emplace();
  auto shared = LogLayout::create(job_);
  ASSERT_TRUE(shared->join_job("0a1b"));
  EXPECT_EQ(shared->run_dir(), job_.output.log_dir + "/4711_bert_0a1b");
  job_.membership.reset();
  job_.flavor = job::Flavor::kTorchrun;
  EXPECT_THAT(LogLayout::create(job_)->run_dir(), MatchesRegex(job_.output.log_dir + "/bert_[a-z0-9_]+"));
}

TEST_F(LogLayoutTest, LatestIsTheNewest) {
  job_.output.log_dir = directory_.path() + "/logs";
  const std::string latest = job_.output.log_dir + "/latest";
  for (int run = 0; run < 2; ++run) {
    auto layout = LogLayout::create(job_);
    ASSERT_TRUE(layout);
    EXPECT_EQ(job_.output.log_dir + "/" + fs::read_symlink(latest).string(), layout->run_dir());
  }
  job_.membership.emplace();
  for (const char* host : {"n1", "n2"}) {
    job_.host = host;
    ASSERT_TRUE(LogLayout::create(job_)->join_job("0a1b"));
    EXPECT_EQ(fs::read_symlink(latest), job_.run_id + "_0a1b");
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(job_.output.log_dir), {}), 4) << "three runs and the link";

  fs::remove(latest);
  touch(latest);
  ASSERT_TRUE(LogLayout::create(job_)->join_job("0a1c"));
  EXPECT_TRUE(fs::is_regular_file(latest)) << "the user's own file";
  job_.flavor = job::Flavor::kTorchrun;
  job_.output.log_dir += "2";
  ASSERT_TRUE(LogLayout::create(job_));
  EXPECT_FALSE(fs::exists(job_.output.log_dir + "/latest"));
}

TEST_F(LogLayoutTest, TheBaseMayBeALinkAndNothingBelowIt) {
  const std::string elsewhere = directory_.path() + "/elsewhere", base = directory_.path() + "/logs";
  fs::create_directory(elsewhere);
  fs::create_directory_symlink(elsewhere, base);
  job_.output.log_dir = base;
  job_.membership.emplace();
  job_.host = "n1";
  auto layout = LogLayout::create(job_);
  ASSERT_TRUE(layout) << layout.error().text();
  ASSERT_TRUE(layout->join_job("0a1b"));
  fs::create_directory_symlink("/tmp", layout->run_dir() + "/r0");
  auto made = layout->make_attempt(0, 1);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().text(), ::testing::HasSubstr("/r0 is a link or a file"));

  fs::create_directory_symlink("/tmp", base + "/none_0a1c");
  EXPECT_FALSE(layout->join_job("0a1c"));
}

TEST_F(LogLayoutTest, ADirectoryOfAnotherUserIsNotUsed) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to give it up";
  job_.output.log_dir = directory_.path();
  job_.membership.emplace();
  auto layout = LogLayout::create(job_);
  ASSERT_TRUE(layout);
  const std::string planted = directory_.path() + "/none_0a1b";
  fs::create_directory(planted);
  ASSERT_EQ(::chown(planted.c_str(), 65534, 65534), 0);
  auto joined = layout->join_job("0a1b");
  ASSERT_FALSE(joined);
  EXPECT_THAT(joined.error().text(), ::testing::HasSubstr("belongs to another user"));
  ASSERT_EQ(::chown(planted.c_str(), 0, 0), 0);
  ASSERT_EQ(::chmod(planted.c_str(), 0777), 0);
  ASSERT_TRUE(layout->join_job("0a1b"));
  EXPECT_EQ(mode_of(planted), 0755u);
}

TEST_F(LogLayoutTest, ABaseThatEveryUserCanWriteToIsSaid) {
  job_.output.log_dir = directory_.path() + "/logs";
  EXPECT_EQ(LogLayout::create(job_)->warning(), "");
  ASSERT_EQ(::chmod(job_.output.log_dir.c_str(), 01777), 0);
  EXPECT_EQ(LogLayout::create(job_)->warning(), "");
  ASSERT_EQ(::chmod(job_.output.log_dir.c_str(), 0777), 0);
  EXPECT_THAT(LogLayout::create(job_)->warning(), ::testing::HasSubstr("every user of this machine can rename"));
}

TEST_F(LogLayoutTest, ABaseThatAnotherUserOrGroupCanChangeIsSaid) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to give it up";
  constexpr uid_t kOther = 65534;
  const std::string base = job_.output.log_dir = directory_.path() + "/logs";
  fs::create_directory(base);
  auto warning = [&](uid_t user, gid_t group, mode_t mode) {
    EXPECT_EQ(::chown(base.c_str(), user, group), 0);
    EXPECT_EQ(::chmod(base.c_str(), mode), 0);
    auto layout = LogLayout::create(job_);
    EXPECT_TRUE(layout);
    return layout ? layout->warning() : layout.error().text();
  };
  const std::string can = " can rename or remove what is in it";
  EXPECT_EQ(warning(kOther, kOther, 0755),
            "--log-dir " + base + ": its owner, the user with id 65534," + can + "; name a directory of your own");
  EXPECT_EQ(warning(kOther, ::getegid(), 01777),
            "--log-dir " + base + ": its owner, the user with id 65534," + can + "; name a directory of your own")
      << "the owner can, whatever the sticky bit says";
  EXPECT_EQ(warning(0, kOther, 02775),
            "--log-dir " + base + ": all members of the group with id 65534" + can + "; chmod +t " + base);
  EXPECT_EQ(warning(0, kOther, 03775), "");
  EXPECT_EQ(warning(0, kOther, 0755), "");
  EXPECT_EQ(warning(0, ::getegid(), 0775), "") << "the user's own group";
  EXPECT_THAT(warning(kOther, kOther, 0777), ::testing::HasSubstr("every user of this machine")) << "one is enough";
  for (const auto& entry : fs::directory_iterator(base))
    EXPECT_EQ(entry.path().string().find(".owner"), std::string::npos);
}

// A directory that stays open to others: read-only while the node joins.
TEST_F(LogLayoutTest, ADirectoryThatCannotBeClosedToOthersIsSaidOnce) {
  job_.output.log_dir = directory_.path();
  job_.membership.emplace();
  job_.host = "n1";
  auto layout = LogLayout::create(job_);
  ASSERT_TRUE(layout);
  const std::string planted = directory_.path() + "/none_0a1b";
  fs::create_directory(planted);
  ASSERT_EQ(::chmod(planted.c_str(), 0777), 0);
  if (::mount("tmpfs", planted.c_str(), "tmpfs", MS_RDONLY, "mode=0777") != 0)
    GTEST_SKIP() << "needs root to mount a small tmpfs";
  auto joined = layout->join_job("0a1b");
  ASSERT_EQ(::umount(planted.c_str()), 0);
  ASSERT_TRUE(joined) << joined.error().text();
  EXPECT_THAT(
      *layout->make_attempt(0, 1),
      MatchesRegex(
          "other users can write to " + planted +
          ", and muster cannot change its mode: .*Read-only file system; name another directory with --log-dir"));
  EXPECT_EQ(*layout->make_attempt(1, 1), "");
}

TEST_F(LogLayoutTest, ATreeThatWasRemovedIsMadeAgain) {
  job_.output.log_dir = directory_.path() + "/logs";
  for (bool several : {false, true}) {
    if (several) job_.membership.emplace();
    job_.host = "n1";
    auto layout = LogLayout::create(job_);
    ASSERT_TRUE(layout);
    ASSERT_TRUE(layout->join_job("0a1b"));
    auto first = layout->make_attempt(0, 2);
    ASSERT_TRUE(first) << first.error().text();
    EXPECT_EQ(*first, "");
    fs::remove_all(job_.output.log_dir);
    auto second = layout->make_attempt(1, 2);
    ASSERT_TRUE(second) << second.error().text();
    EXPECT_THAT(*second, ::testing::HasSubstr("was removed during the run: it was made again"));
    EXPECT_TRUE(fs::is_directory(fs::path(layout->stream_file(1, 1, job::Stream::kStdout)).parent_path()));
    EXPECT_EQ(mode_of(layout->run_dir()), 0700u);
    EXPECT_EQ(*layout->make_attempt(2, 2), "");
  }
}

TEST_F(LogLayoutTest, WithoutATreeTheJobGoesOn) {
  job_.output.log_dir = directory_.path() + "/logs";
  auto layout = LogLayout::create(job_);
  ASSERT_TRUE(layout->make_attempt(0, 1));
  fs::remove_all(job_.output.log_dir);
  touch(job_.output.log_dir);
  auto second = layout->make_attempt(1, 1);
  ASSERT_TRUE(second) << second.error().text();
  EXPECT_THAT(*second, ::testing::StartsWith("no log files from now on: "));
  EXPECT_TRUE(layout->disabled());
  EXPECT_EQ(*layout->make_attempt(2, 1), "");
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
}  // namespace muster::output
