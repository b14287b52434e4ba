#include "muster/environment/difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::environment {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

Fingerprint node(std::string host, std::map<std::string, std::string> versions,
                 std::map<std::string, std::string> variables) {
  return {std::move(host), std::move(versions), std::move(variables)};
}

TEST(Differences, OfNodesThatAreAlike) {
  const std::vector<Fingerprint> nodes = {
      node("n1", {{"torch", "2.1"}}, {{"A", "1"}, {"HOSTNAME", "n1"}, {"RANK", "0"}}),
      node("n2", {{"torch", "2.1"}}, {{"A", "1"}, {"HOSTNAME", "n2"}, {"RANK", "1"}})};
  EXPECT_TRUE(differences(nodes, {"RANK"}).empty());
  EXPECT_EQ(differences_text(nodes, {}), "The 2 nodes do not differ.\n");
  EXPECT_EQ(differences_text({nodes[0]}, {}), "There is one node, n1, and nothing to compare it with.\n");
}

TEST(Differences, AreGroupedByValue) {
  const std::vector<Fingerprint> nodes = {node("n1", {{"torch", "2.2"}}, {{"A", ""}}),
                                          node("n2", {{"torch", "2.1"}}, {}), node("n3", {{"torch", "2.1"}}, {})};
  const auto found = differences(nodes, {});
  EXPECT_EQ(differences_text(nodes, found),
            "torch\n"
            "  n2, n3  2.1\n"
            "  n1      2.2\n"
            "A\n"
            "  n2, n3  (not set)\n"
            "  n1      (empty)\n");
  EXPECT_THAT(differences_json(nodes, found), HasSubstr("\"value\": null"));
}

TEST(Differences, OfLongValuesAreShownWhereTheyAre) {
  const std::string common(1000, 'x');
  const std::vector<Fingerprint> nodes = {node("n1", {}, {{"PATH", common + ":/opt/a"}}),
                                          node("n2", {}, {{"PATH", common + ":/opt/b"}})};
  const std::string text = differences_text(nodes, differences(nodes, {}));
  EXPECT_THAT(text, HasSubstr("/opt/a\n"));
  EXPECT_THAT(text, HasSubstr("/opt/b\n"));
  EXPECT_LT(text.size(), 200U);
}

TEST(Fingerprints, TravelAsText) {
  const Fingerprint print = node("n1", {{"torch", "2.1"}}, {{"A", "\"x\"\n"}});
  auto again = decode_fingerprint(encode(print));
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(*again, print);
  for (const char* bad : {"", "{}", "[1]", "{\"host\":1}", "{\"host\":\"a\",\"versions\":{\"x\":1},\"variables\":{}}"})
    EXPECT_FALSE(decode_fingerprint(bad)) << bad;
}

TEST(Differences, NothingInThemReachesATerminal) {
  const std::string clear =
      "\x1b[2J\r\xc2\x9b"
      "31m\x07";
  const std::vector<Fingerprint> nodes = {node("n1" + clear, {{"torch" + clear, "1"}}, {{"A" + clear, "x" + clear}}),
                                          node("n2", {}, {{"A" + clear, std::string(300, 'y') + clear}})};
  const auto found = differences(nodes, {});
  ASSERT_EQ(found.size(), 2U);
  for (const std::string& text :
       {differences_text(nodes, found), differences_text({nodes[0]}, {}), differences_json(nodes, found)})
    for (const char* control : {"\x1b", "\r", "\xc2\x9b", "\x07"}) EXPECT_THAT(text, Not(HasSubstr(control))) << text;
  EXPECT_THAT(differences_text(nodes, found), HasSubstr("x\\x1b[2J\\x0d")) << "and still differs";
}

TEST(Fingerprints, SecretsAreComparedWithoutBeingShown) {
  const FingerprintKey key = random_fingerprint_key();
  auto shown = [&](const char* name, const char* value) { return masked_with_hash(name, value, key); };
  EXPECT_THAT(shown("HF_TOKEN", "one"), MatchesRegex("[*]{3} #[0-9a-f]{8}"));
  EXPECT_EQ(shown("HF_TOKEN", "one"), shown("HF_TOKEN", "one"));
  EXPECT_NE(shown("HF_TOKEN", "one"), shown("HF_TOKEN", "two"));
  EXPECT_NE(shown("HF_TOKEN", "one"), shown("WANDB_TOKEN", "one"));
  EXPECT_EQ(shown("A", "one"), "one");
}

TEST(Fingerprints, WithoutTheKeyNoValueIsFoundByTrying) {
  EXPECT_NE(masked_with_hash("PIN_KEY", "1234", random_fingerprint_key()),
            masked_with_hash("PIN_KEY", "1234", random_fingerprint_key()));
}

TEST(Fingerprints, CudaOfTorch) {
  EXPECT_EQ(cuda_of_torch("__version__ = '2.1'\ncuda = '12.4'\n"), "12.4");
  EXPECT_EQ(cuda_of_torch("cuda: Optional[str] = \"11.8\"\nhip = None"), "11.8");
  EXPECT_EQ(cuda_of_torch("cuda: Optional[str] = None\n"), "");
  EXPECT_EQ(cuda_of_torch(""), "");
}

TEST(Fingerprints, OfThisMachine) {
  const Fingerprint print = take_fingerprint("me", {{"PATH", "/usr/bin:/bin"}, {"A", "1"}}, random_fingerprint_key(),
                                             Deadline::in(std::chrono::seconds(60)));
  EXPECT_EQ(print.variables.at("A"), "1");
  EXPECT_THAT(print.versions.at("python"), HasSubstr("(/usr/bin/python3)"));
  EXPECT_FALSE(print.versions.at("kernel").empty());
}

}  // namespace
}  // namespace muster::environment
