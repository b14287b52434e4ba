#include "muster/cli/values.h"

#include <gmock/gmock.h>

#include <cmath>

namespace muster::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(Values, IntegersAreReadAsPythonReadsThem) {
  EXPECT_EQ(python_int("0"), "0");
  EXPECT_EQ(python_int(" +1_000 \n"), "1000");
  EXPECT_EQ(python_int("-007"), "-7");
  EXPECT_EQ(python_int("-0"), "0");
  EXPECT_EQ(python_int("123456789012345678901234567890"), "123456789012345678901234567890");
  for (const char* bad : {"", " ", "-", "+", "1__0", "_1", "1_", "0x10", "1.0", "1 0", "--1", "a"})
    EXPECT_EQ(python_int(bad), std::nullopt) << bad;
  EXPECT_EQ(python_int(std::string(4301, '1')), std::nullopt);
}

TEST(Values, NumbersAreReadAsPythonReadsThem) {
  EXPECT_EQ(python_float("0.1"), 0.1);
  EXPECT_EQ(python_float(" -1_0.5e-1 "), -1.05);
  EXPECT_EQ(python_float(".5"), 0.5);
  EXPECT_EQ(python_float("5."), 5.0);
  EXPECT_EQ(python_float("-Infinity"), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(*python_float("NaN")));
  for (const char* bad : {"", ".", "e5", "1e", "1e+", "0x1p3", "1_.5", "1 .5", "infin", "1d"})
    EXPECT_EQ(python_float(bad), std::nullopt) << bad;
}

TEST(Values, ReprQuotesAsPythonDoes) {
  EXPECT_EQ(python_repr("a'b"), "\"a'b\"");
  EXPECT_EQ(python_repr("a'\"b"), "'a\\'\"b'");
  EXPECT_EQ(python_repr("\t\x01\\"), "'\\t\\x01\\\\'");
}

TEST(Values, ListsHaveALiteralComma) {
  EXPECT_THAT(split_list("a,b,,c"), ElementsAre("a", "b,c"));
  EXPECT_THAT(split_list(""), ElementsAre(""));
  EXPECT_THAT(split_list(",,,"), ElementsAre(",", ""));
}

TEST(Values, Nodes) {
  EXPECT_EQ(parse_nodes("1")->max, 1);
  EXPECT_EQ(parse_nodes("1:4")->min, 1);
  EXPECT_EQ(parse_nodes("1:4")->max, 4);
  EXPECT_EQ(parse_nodes("4:1").error().text(), "the minimum of '4:1' is above its maximum; write MIN:MAX");
  EXPECT_EQ(parse_nodes("0").error().text(), "'0' is out of range; at least one node is needed");
  for (const char* bad : {"", "x", "1:", ":1", "1:2:3", "1:x", "-1", "0:2", "99999999999"})
    EXPECT_FALSE(parse_nodes(bad)) << bad;
}

TEST(Values, WorkerCounts) {
  EXPECT_EQ(parse_worker_count("8")->number, 8);
  EXPECT_EQ(parse_worker_count("v100:4")->number, 4);
  EXPECT_EQ(parse_worker_count("gpu:a100-sxm4.80:2")->number, 2);
  EXPECT_EQ(parse_worker_count("gpu:3")->number, 3);
  EXPECT_EQ(parse_worker_count("v100:4,gpu:a100:2")->number, 6);
  for (const char* bad :
       {":4", "v100:", "a:b:4", "v100:4,2", "1,2", "v100:4,", "v100:0", "gpu::4", "v100: x", "gpu:gpu:v:1"})
    EXPECT_FALSE(parse_worker_count(bad)) << bad;
  EXPECT_EQ(parse_worker_count("gpu")->what, job::Countable::kGpu);
  EXPECT_EQ(parse_worker_count("auto")->what, job::Countable::kAuto);
  EXPECT_EQ(parse_worker_count("0").error().text(), "0 is too small; it must be at least 1");
  EXPECT_EQ(parse_worker_count("-1").error().text(), "-1 is too small; it must be at least 1");
  EXPECT_EQ(parse_worker_count("x").error().text(),
            "'x' is not a number of workers; write a number, gpu, cpu, xpu or auto");
  for (const char* huge : {"1000001", "99999999999", "99999999999999999999"})
    EXPECT_EQ(parse_worker_count(huge).error().text(),
              fmt::format("{} workers are more than a node can have; write a number up to 1000000", huge));
  EXPECT_FALSE(parse_worker_count(""));
  EXPECT_FALSE(parse_worker_count("99999999999999999999"));
}

TEST(Values, RendezvousConf) {
  EXPECT_THAT(*parse_rendezvous_conf(""), IsEmpty());
  EXPECT_THAT(*parse_rendezvous_conf(" a = 1 , b=c=d"), UnorderedElementsAre(Pair("a", "1"), Pair("b", "c=d")));
  EXPECT_EQ(parse_rendezvous_conf("a=1,timeout").error().text(), "'timeout' has no value; write timeout=VALUE");
  EXPECT_EQ(parse_rendezvous_conf("a=").error().text(), "'a' has no value; write a=VALUE");
  EXPECT_FALSE(parse_rendezvous_conf("=1"));
  EXPECT_FALSE(parse_rendezvous_conf("a=1,"));
}

TEST(Values, RendezvousConfHasValuesThatCanBeUsed) {
  EXPECT_TRUE(
      check_rendezvous_conf({{"join_timeout", "5"}, {"is_host", "True"}, {"store_type", "tcp"}, {"mine", "x"}}));
  EXPECT_EQ(check_rendezvous_conf({{"join_timeout", "abc"}}).error().text(),
            "'abc' is not a value for join_timeout; write a whole number above 0");
  EXPECT_FALSE(check_rendezvous_conf({{"read_timeout", "-1"}}));
  EXPECT_FALSE(check_rendezvous_conf({{"is_host", "maybe"}}));
  EXPECT_FALSE(check_rendezvous_conf({{"store_type", "zzz"}}));
}

TEST(Values, StreamMasks) {
  EXPECT_EQ(parse_stream_masks("3", RankSyntax::kAny)->all, 3);
  EXPECT_THAT(parse_stream_masks("0:1,11:2", RankSyntax::kAny)->by_rank, ElementsAre(Pair(0, 1), Pair(11, 2)));
  EXPECT_FALSE(parse_stream_masks("0:1,11:2", RankSyntax::kTorchrun)) << "torchrun's ranks have one digit";
  EXPECT_THAT(parse_stream_masks("5:1", RankSyntax::kTorchrun)->by_rank, ElementsAre(Pair(5, 1)));
  EXPECT_FALSE(parse_stream_masks("99999999999:1", RankSyntax::kAny));
  for (const char* bad : {"", "4", "-1", "0:4", "0:", ":1", "0:1,", "0:1,,1:1", "a:1", "0:11", "0:1:2", " 3"}) {
    EXPECT_FALSE(parse_stream_masks(bad, RankSyntax::kAny)) << bad;
    EXPECT_FALSE(parse_stream_masks(bad, RankSyntax::kTorchrun)) << bad;
  }
}

TEST(Values, Ranks) {
  EXPECT_THAT(*parse_ranks("2, 0,2"), ElementsAre(0, 2));
  for (const char* bad : {"", "0,", "a", "0;1", "99999999999"}) EXPECT_FALSE(parse_ranks(bad)) << bad;
}

TEST(Values, Signals) {
  SignalList list = parse_signals("SIGTERM, SIGUSR1,SIGNOPE");
  EXPECT_THAT(list.signals, ElementsAre(15, 10));
  EXPECT_THAT(list.unknown, ElementsAre("SIGNOPE"));
}

TEST(Values, Sizes) {
  EXPECT_EQ(*parse_size("0"), 0u);
  EXPECT_EQ(*parse_size("4096"), 4096u);
  EXPECT_EQ(*parse_size("64k"), 64u << 10);
  EXPECT_EQ(*parse_size("512MiB"), 512u << 20);
  EXPECT_EQ(*parse_size("2GB"), uint64_t{2} << 30);
  EXPECT_EQ(*parse_size("1T"), uint64_t{1} << 40);
  EXPECT_EQ(*parse_size("7b"), 7u);
  for (const char* bad : {"", "k", "-1", "1.5G", "1Z", "1 G", "99999999999999999999", "99999999T", "1kk"})
    EXPECT_FALSE(parse_size(bad)) << bad;
}

TEST(Values, PrefixTemplates) {
  for (const char* good : {"", "[${role_name}${local_rank}]:", "$rank $$x ${hostname}", "100$", "$ ", "${", "$5"})
    EXPECT_TRUE(check_prefix_template(good)) << good;
  EXPECT_EQ(
      check_prefix_template("${pid}").error().text(),
      "'${pid}' has no meaning in '${pid}'; the names are ${role_name}, ${local_rank}, ${rank} and ${hostname}; $$ is "
      "a dollar sign");
  EXPECT_FALSE(check_prefix_template("$ranks"));
}

TEST(Values, QuotesAroundTheWhole) {
  EXPECT_EQ(without_quotes("'a=1'"), "a=1");
  EXPECT_EQ(without_quotes("\"a=1\""), "a=1");
  for (const char* other : {"", "'", "'a", "a'b'", "'a\""}) EXPECT_EQ(without_quotes(other), other);
}

}  // namespace
}  // namespace muster::cli
