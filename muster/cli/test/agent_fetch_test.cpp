#include "muster/cli/agent_fetch.h"

#include <gmock/gmock.h>

namespace muster::cli {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> words_for(const cluster::Fetch& fetch, const std::string& name) {
  std::vector<std::string> words = cluster::fetch_command("/opt/muster", fetch, name);
  return {words.begin() + 2, words.end()};
}

std::string error(const std::vector<std::string>& words) {
  auto parsed = parse_fetch(words);
  return parsed ? "" : parsed.error().message;
}

TEST(FetchWords, AreWhatTheStartersWrite) {
  const cluster::Fetch fetch{.endpoints = {"10.0.0.1:4711", "fe80::1:4711"}, .nonce = "00ff", .munge = true};
  EXPECT_EQ(**parse_fetch(words_for(fetch, "n1")), (FetchWords{fetch, "n1"}));
  const cluster::Fetch by_key{.endpoints = {"10.0.0.1:4711"}, .nonce = "1", .munge = false};
  EXPECT_EQ(**parse_fetch(words_for(by_key, "")), (FetchWords{by_key, ""}));
  EXPECT_FALSE(parse_fetch({})->has_value()) << "the description comes on stdin";
}

TEST(FetchWords, OthersAreRefused) {
  EXPECT_THAT(error({"--fetch"}), HasSubstr("--fetch has no value"));
  EXPECT_THAT(error({"--x", "1"}), HasSubstr("it has no --x"));
  EXPECT_THAT(error({"--fetch", "10.0.0.1:1", "--nonce", "1"}), HasSubstr("--by munge or --by key"));
  EXPECT_THAT(error({"--fetch", "10.0.0.1:1", "--by", "key"}), HasSubstr("--fetch and --nonce go together"));
}

TEST(FetchWords, AnEndpointIsAnAddressAndAPort) {
  for (const char* endpoint : {"n1", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:70000", ":1", "n1:2"}) {
    FetchWords words{{.endpoints = {endpoint}, .nonce = "1", .munge = false}, "n1"};
    EXPECT_THAT(fetch_description(words, Deadline::in(std::chrono::seconds(1))).error().message,
                HasSubstr("is not an address with a port"))
        << endpoint;
  }
}

TEST(FetchWords, ANodeIsCalledWhatSlurmCallsIt) {
  auto slurm = [](const std::string& name) -> std::optional<std::string> {
    return name == "SLURMD_NODENAME" ? std::optional<std::string>("n7") : std::nullopt;
  };
  EXPECT_EQ(own_name(slurm), "n7");
  EXPECT_NE(own_name([](const std::string&) { return std::optional<std::string>(); }), "");
}

}  // namespace
}  // namespace muster::cli
