#include "muster/container/failure.h"

#include <gtest/gtest.h>

namespace muster::container {
namespace {

TEST(Failure, SaysHostRuntimesWordsAndTheWayOut) {
  const Error error =
      failure("n2", "podman cannot fetch torch:9", "Trying to pull\nError: manifest unknown\n\n", {"podman"});
  EXPECT_EQ(
      error.text(),
      "n2: podman cannot fetch torch:9: Trying to pull; Error: manifest unknown; check the name, or fetch the image to "
      "every node first");
}

TEST(Failure, TellsWhatToTryWhereNothingIsKnown) {
  EXPECT_EQ(failure("n2", "ch-run fails", "odd", {"ch-run", "a b"}).text(),
            "n2: ch-run fails: odd; try it there: ch-run 'a b'");
  EXPECT_EQ(failure("n2", "ch-run fails", "", {"ch-run"}).text(), "n2: ch-run fails; try it there: ch-run");
}

TEST(Failure, NamespacesAreAskedFor) {
  EXPECT_NE(failure("n2", "x", "ch-run: can't unshare: Operation not permitted", {}).hint.find("user namespaces"),
            std::string::npos);
}

TEST(Failure, ARuntimesControlCharactersReachNoTerminal) {
  const Error error =
      failure("n2", "podman cannot fetch x\x1b]0;y\a", "\x1b[31mError\x1b[0m: \x07 odd\r\n10%\r20%\n", {"a\x1b"});
  EXPECT_EQ(error.text(), "n2: podman cannot fetch x\\x1b]0;y\\x07: Error: \\x07 odd; 20%; try it there: 'a\\x1b'");
}

TEST(Failure, OnlyTheLastLinesAreRepeated) {
  EXPECT_EQ(last_words("1\n2\n\n3\n4\n"), "2; 3; 4");
  EXPECT_EQ(last_words(std::string(5000, 'x')).size(), 600u);
}

}  // namespace
}  // namespace muster::container
