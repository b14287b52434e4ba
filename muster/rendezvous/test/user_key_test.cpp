#include "muster/rendezvous/user_key.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "muster/base/environment.h"
#include "muster/rendezvous/shared_secret.h"

namespace muster::rendezvous {
namespace {

using testing::HasSubstr;

class UserKey : public testing::Test {
 protected:
  UserKey() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-key-XXXXXX").string();
    home_ = mkdtemp(name.data());
  }
  ~UserKey() override { std::filesystem::remove_all(home_); }

  void write(const std::string& text, mode_t mode) const {
    std::filesystem::create_directories(home_ / ".config/muster");
    std::ofstream(path()) << text;
    ::chmod(path().c_str(), mode);
  }
  std::string path() const { return home_ / ".config/muster/key"; }

  std::filesystem::path home_;
};

TEST_F(UserKey, IsMadeOnceAndForItsOwnerAlone) {
  EXPECT_EQ(*read_user_key(path(), false), std::nullopt);
  auto made = read_user_key(path(), true);
  ASSERT_TRUE(made) << made.error().text();
  ASSERT_TRUE(*made);
  EXPECT_EQ((*made)->size(), 64u);
  EXPECT_EQ((*made)->find_first_not_of("0123456789abcdef"), std::string::npos);
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(*read_user_key(path(), true), *made);
  EXPECT_EQ(*read_user_key(path(), false), *made);
  auto files = std::filesystem::directory_iterator(std::filesystem::path(path()).parent_path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "nothing is left of making it";
}

TEST_F(UserKey, WhyItCannotBeMade) {
  std::filesystem::create_directories(home_ / ".config");
  std::ofstream(home_ / ".config/muster") << "in the way";
  EXPECT_THAT(read_user_key(path(), true).error().text(), HasSubstr("/key cannot be read: open: Not a directory"));
  const std::filesystem::path full = "/proc/self/.config/muster/key";  // where nothing can be made, even by root
  EXPECT_EQ(
      read_user_key(full, true).error().text(),
      "the key /proc/self/.config/muster/key cannot be made: /proc/self/.config/muster: No such file or directory; "
      "give --token-file FILE or MUSTER_TOKEN instead, or --insecure");
}

TEST_F(UserKey, AHomeThatDoesNotExistIsNotMade) {
  const std::filesystem::path nowhere = home_ / "gone";
  EXPECT_THAT(read_user_key(nowhere / ".config/muster/key", true).error().text(),
              HasSubstr("cannot be made: there is no home directory " + nowhere.string() + "; give --token-file"));
  EXPECT_FALSE(std::filesystem::exists(nowhere));
}

TEST_F(UserKey, OneThatOthersCanReadIsRefused) {
  write("secret\n", 0640);
  auto key = read_user_key(path(), true);
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().text(), "the key " + path() + " can be read or changed by others; chmod 600 " + path());
  ::chmod(path().c_str(), 0600);
  EXPECT_EQ(*read_user_key(path(), true), "secret");
}

TEST_F(UserKey, OneOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give it up";
  write("secret\n", 0600);
  ASSERT_EQ(::chown(path().c_str(), 65534, 65534), 0);
  EXPECT_EQ(
      read_user_key(path(), true).error().text(),
      "the key " + path() + " belongs to another user; give --token-file FILE or MUSTER_TOKEN instead, or --insecure");
  EXPECT_EQ(read_token_file(path()).error().text(),
            "'" + path() + "' belongs to another user; give a file of your own");
}

TEST_F(UserKey, OneThatSaysNothingIsRefused) {
  write(" \n", 0600);
  EXPECT_THAT(read_user_key(path(), true).error().text(), HasSubstr("is empty; give --token-file FILE"));
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  EXPECT_THAT(read_user_key(path(), true).error().text(), HasSubstr("is not a file"));
}

TEST_F(UserKey, ATokenFileMustBeAsPrivateAsTheKey) {
  const std::string file = home_ / "token";
  EXPECT_EQ(read_token_file(file).error().text(),
            fmt::format("'{}' cannot be read: No such file or directory; give a file you may read", file));
  std::ofstream(file) << " secret \n";
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  EXPECT_EQ(*read_token_file(file), "secret");
  std::filesystem::create_symlink(file, home_ / "link");
  EXPECT_EQ(*read_token_file(home_ / "link"), "secret") << "as mounted secrets are";
  std::filesystem::permissions(file, std::filesystem::perms(0640));
  EXPECT_EQ(read_token_file(file).error().text(),
            fmt::format("'{0}' can be read or changed by others; chmod 600 {0}", file));
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  std::ofstream(file) << " \n";
  EXPECT_THAT(read_token_file(file).error().text(), HasSubstr("is empty; write a secret into it"));
  EXPECT_THAT(read_token_file(home_).error().text(), HasSubstr("is not a file"));
}

TEST_F(UserKey, LauncherAndAgentDeriveTheSameToken) {
  const std::string before = environment_variable("HOME").value_or("");
  ::setenv("HOME", home_.c_str(), 1);
  auto chosen = choose_secret();
  auto found = find_secret({}, chosen ? chosen->nonce : "", false, Deadline::in(std::chrono::seconds(30)));
  ::setenv("HOME", before.c_str(), 1);
  ASSERT_TRUE(chosen) << chosen.error().text();
  if (!chosen->sealed.empty()) return;  // munged runs here, and is preferred to the key
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_TRUE(*found == chosen->token);
}

}  // namespace
}  // namespace muster::rendezvous
