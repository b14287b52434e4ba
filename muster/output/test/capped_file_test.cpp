#include <gtest/gtest.h>
#include <unistd.h>

#include "muster/output/capped_file.h"
#include "muster/output/test/output_harness.h"

namespace muster::output {
namespace {

using testing::TemporaryDirectory;

constexpr TimePoint kNow{};

TEST(CappedFile, GrowsByWholeLinesUpToItsCap) {
  TemporaryDirectory directory;
  std::string path = directory.path() + "/log";
  auto file = CappedFile::create(path, 10);
  ASSERT_TRUE(file);
  file->append("abc\n", kNow);
  file->append("de", kNow);
  EXPECT_FALSE(file->dropping());
  file->append("f\n", kNow);          // 8 bytes
  file->append("x\ntoo long", kNow);  // "x\n" still fits
  EXPECT_TRUE(file->dropping());
  file->append(" to fit\nmore\n", kNow);
  file->finish();
  EXPECT_EQ(*read_file(path), "abc\ndef\nx\n");
  EXPECT_EQ(file->dropped_lines(), 2u);
  EXPECT_EQ(file->reason(), "cap 10 bytes; raise it with --output-cap");
}

TEST(CappedFile, ALineThatOutgrowsTheCapIsTakenBack) {
  TemporaryDirectory directory;
  std::string path = directory.path() + "/log";
  auto file = CappedFile::create(path, 6);
  ASSERT_TRUE(file);
  file->append("a\nbcd", kNow);
  file->append("efgh", kNow);
  file->finish();
  EXPECT_EQ(*read_file(path), "a\n");
  EXPECT_EQ(file->dropped_lines(), 1u);
}

TEST(CappedFile, DoesNotFollowALink) {
  TemporaryDirectory directory;
  const std::string target = directory.path() + "/target", path = directory.path() + "/log";
  ASSERT_EQ(::symlink(target.c_str(), path.c_str()), 0);
  EXPECT_FALSE(CappedFile::create(path, 10));
  EXPECT_NE(::access(target.c_str(), F_OK), 0);
}

TEST(CappedFile, WithoutACapThereIsNoLimit) {
  TemporaryDirectory directory;
  auto file = CappedFile::create(directory.path() + "/log", 0);
  ASSERT_TRUE(file);
  file->append(std::string(1 << 20, 'x') + "\n", kNow);
  EXPECT_FALSE(file->dropping());
  EXPECT_EQ(file->size(), (1u << 20) + 1);
}

TEST(CappedFile, AFullDeviceDropsAndSaysWhy) {
  auto file = CappedFile::create("/dev/full", 0);
  ASSERT_TRUE(file);
  file->append("a\nb\nc", kNow);
  file->append("d\n", kNow);
  EXPECT_TRUE(file->dropping());
  EXPECT_EQ(file->dropped_lines(), 3u);
  EXPECT_EQ(file->reason(), "No space left on device");
}

TEST(CappedFile, AFullDiskKeepsWholeLinesAndGoesOnWhenThereIsRoom) {
  TemporaryDirectory directory;
  if (!directory.mount_small("size=64k")) GTEST_SKIP() << "needs root to mount a small tmpfs";
  std::string path = directory.path() + "/log";
  auto file = CappedFile::create(path, 0);
  ASSERT_TRUE(file);
  std::string line(99, 'x');
  line += '\n';
  std::string block;
  for (int i = 0; i < 100; ++i) block += line;
  for (int i = 0; i < 10; ++i) file->append(block, kNow);
  ASSERT_TRUE(file->dropping());
  std::string kept = *read_file(path);
  EXPECT_EQ(kept.size() % line.size(), 0u);
  EXPECT_EQ(kept.size() / line.size() + file->dropped_lines(), 1000u);

  // A second later it tries again.
  ASSERT_EQ(::truncate(path.c_str(), 0), 0);
  file->append(line, kNow + std::chrono::seconds(2));
  EXPECT_FALSE(file->dropping());
}

TEST(CappedFile, AnUnlinkedFileHasNoName) {
  TemporaryDirectory directory;
  CappedFile file = CappedFile::create_unlinked(directory.path(), 0);
  ASSERT_TRUE(file);
  file.append("spooled\n", kNow);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  file.reset();
  EXPECT_EQ(file.size(), 0u);
}

TEST(CappedFile, OneThatCannotBeCreatedDropsEverything) {
  CappedFile file = CappedFile::create_unlinked("/nowhere/at/all", 0);
  file.append("a\nb\n", kNow);
  EXPECT_EQ(file.dropped_lines(), 2u);
  EXPECT_EQ(file.reason(), "No such file or directory");
}

TEST(SizeText, Units) {
  EXPECT_EQ(size_text(uint64_t{1} << 30), "1 GiB");
  EXPECT_EQ(size_text(64 << 10), "64 KiB");
  EXPECT_EQ(size_text(1000), "1000 bytes");
}

}  // namespace
}  // namespace muster::output
