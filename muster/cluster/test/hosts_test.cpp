#include "muster/cluster/hosts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/strings.h"

namespace muster::cluster {

std::ostream& operator<<(std::ostream& out, const Host& host) {
  return out << host.name << (host.workers ? fmt::format(":{}", *host.workers) : "");
}

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Host> hosts(std::string_view text) {
  auto result = parse_hosts(text);
  EXPECT_TRUE(result.ok()) << text << ": " << (result.ok() ? "" : result.error().message);
  return result.ok() ? *result : std::vector<Host>();
}
std::vector<Host> hostfile(std::string_view text) {
  auto result = parse_hostfile(text);
  EXPECT_TRUE(result.ok()) << text << ": " << (result.ok() ? "" : result.error().message);
  return result.ok() ? *result : std::vector<Host>();
}
std::string expanded(std::string_view text) {
  auto result = expand_hostlist(text);
  return result.ok() ? join(*result, " ") : "error: " + result.error().text();
}
template <typename T>
std::string error_of(const Result<T>& result) {
  EXPECT_FALSE(result.ok());
  if (result.ok()) return {};
  EXPECT_EQ(result.error().kind, ErrorKind::kUsage);
  return result.error().text();
}

TEST(Hostlist, ExpandsAsSlurmDoes) {
  EXPECT_EQ(expanded("n1"), "n1");
  EXPECT_EQ(expanded("n[1-3,7],gpu[001-003]x"), "n1 n2 n3 n7 gpu001x gpu002x gpu003x");
  EXPECT_EQ(expanded("n[08-11]"), "n08 n09 n10 n11");
  EXPECT_EQ(expanded("n[8-11]"), "n8 n9 n10 n11");
  EXPECT_EQ(expanded("n[0-1]"), "n0 n1");
  EXPECT_EQ(expanded("r[1-2]n[1-2]"), "r1n1 r1n2 r2n1 r2n2");
  EXPECT_EQ(expanded("[1-2]a"), "1a 2a");
  EXPECT_EQ(expanded("a,b , a"), "a b a");
}

TEST(Hostlist, ErrorsNameThePiece) {
  EXPECT_EQ(expanded(""), "error: no host is named; write n1,n2 or n[1-4]");
  const std::string beside = "has no host beside it; leave it out, or write the host that is missing";
  EXPECT_EQ(expanded("a,,b"), "error: a comma of \"a,,b\" " + beside);
  EXPECT_EQ(expanded("a,"), "error: a comma of \"a,\" " + beside);
  EXPECT_EQ(expanded("n[1-3"), "error: the brackets of \"n[1-3\" do not match; write n[1-4] or n[1,3]");
  EXPECT_EQ(expanded("a,n1]"), "error: the brackets of \"n1]\" do not match; write n[1-4] or n[1,3]");
  EXPECT_EQ(expanded("n[3-1]"), "error: the range 3-1 runs backwards; write 1-3");
  EXPECT_EQ(expanded("n[1-003]"), "error: the ends of the range 1-003 differ in width; write 001-003 or 1-3");
  EXPECT_EQ(expanded("n[0001-02]"), "error: the ends of the range 0001-02 differ in width; write 0001-0002 or 1-2");
  for (const char* text : {"n[]", "n[1-]", "n[-1]", "n[a]", "n[1-2-3]", "n[1,,2]", "n[99999999999999999999]"}) {
    EXPECT_THAT(expanded(text), HasSubstr("is neither a number nor a range")) << text;
  }
}

TEST(Hostlist, TooManyAreRefusedBeforeTheyAreMade) {
  EXPECT_EQ(expand_hostlist("n[1-65536]")->size(), 65536U);
  EXPECT_EQ(expanded("n[1-65537]"), "error: \"1-65537\" is more than 65536 hosts");
  for (const char* text : {"n[1-999999999]", "n[1-999999999999999999]", "n[1-65536],m", "a[1-257]b[1-257]",
                           "a[1-65536]b[1-65536]c[1-65536]d[1-65536]e[1-65536]"}) {
    EXPECT_THAT(expanded(text), HasSubstr("hosts")) << text;
  }
  EXPECT_THAT(expanded(std::string(300, 'n')), HasSubstr("too long"));
  std::string brackets;
  for (int i = 0; i < 10000; ++i) brackets += "[1]";
  EXPECT_THAT(expanded(brackets), HasSubstr("too long"));
}

TEST(Hosts, NamesAndWorkers) {
  EXPECT_THAT(hosts("n1,n2:4,n[3-5]"),
              ElementsAre(Host{"n1", {}}, Host{"n2", 4}, Host{"n3", {}}, Host{"n4", {}}, Host{"n5", {}}));
  EXPECT_THAT(hosts("gpu[01-02,7]x:2"), ElementsAre(Host{"gpu01x", 2}, Host{"gpu02x", 2}, Host{"gpu7x", 2}));
  EXPECT_THAT(hosts("user@n9, me@corp@n10:1"), ElementsAre(Host{"user@n9", {}}, Host{"me@corp@n10", 1}));
  EXPECT_THAT(hosts("10.0.0.1:8"), ElementsAre(Host{"10.0.0.1", 8}));
}

TEST(Hosts, Ipv6) {
  EXPECT_THAT(hosts("[fe80::1]:2,[::1],fd00::2,user@[fe80::3%eth0]:4,user@fd00::4"),
              ElementsAre(Host{"fe80::1", 2}, Host{"::1", {}}, Host{"fd00::2", {}}, Host{"user@fe80::3%eth0", 4},
                          Host{"user@fd00::4", {}}));
  EXPECT_THAT(error_of(parse_hosts("[fe80:zz]:2")), HasSubstr("no IPv6 address"));
  EXPECT_THAT(error_of(parse_hosts("n[::1]")), HasSubstr("no IPv6 address"));
  EXPECT_THAT(error_of(parse_hosts("[::1]x")), HasSubstr("no IPv6 address"));
}

TEST(Hosts, WorkersAsSlurmWritesGpus) {
  EXPECT_THAT(hosts("n1:v100:4,n[2-3]:gpu:2,a1:gpu:a100-sxm4:8,u@n4:v100:1"),
              ElementsAre(Host{"n1", 4}, Host{"n2", 2}, Host{"n3", 2}, Host{"a1", 8}, Host{"u@n4", 1}));
  EXPECT_THAT(hosts("[fe80::1]:v100:4,n1:gpu:3090:2"), ElementsAre(Host{"fe80::1", 4}, Host{"n1", 2}));
  // In a list a comma begins the next host.
  EXPECT_THAT(hosts("n1:v100:4,a100:2"), ElementsAre(Host{"n1", 4}, Host{"a100", 2}));
  for (const char* text : {"n1:v100:0", "n1:v100:65537", "n1:gpu:0"}) EXPECT_FALSE(parse_hosts(text).ok()) << text;
}

// An address stays one, and what may be a port is no type.
TEST(Hosts, ColonsAreNotGuessedAt) {
  EXPECT_THAT(hosts("1:2:3:4:5:6:7:8,fd00::a100:4,[fd00::a100:5]:2"),
              ElementsAre(Host{"1:2:3:4:5:6:7:8", {}}, Host{"fd00::a100:4", {}}, Host{"fd00::a100:5", 2}));
  EXPECT_EQ(
      error_of(parse_hosts("n1:22:4")),
      "\"n1:22:4\": 22 may be a port or a type of GPU; a port belongs into ~/.ssh/config; a type is written gpu:22:4");
  EXPECT_THAT(error_of(parse_hosts("[::1]:22:4")), HasSubstr("a type is written gpu:22:4"));
  for (const char* text :
       {"n1:v100:", "n1::4", "n1:22:v100:4", "n1:v100:x", "n1:gpu:gpu:v:1", "fd00::x:4", "n1:v100:4:2"})
    EXPECT_THAT(error_of(parse_hosts(text)),
                HasSubstr("several colons and is not an IPv6 address; write n1:4, n1:v100:4"))
        << text;
}

TEST(Hosts, Errors) {
  EXPECT_EQ(error_of(parse_hosts("n1,n2,n1:3")), "n1 is named twice; write n1:2 for two workers");
  EXPECT_THAT(error_of(parse_hosts("me@N1,n[1-2]")), HasSubstr("n1 is named twice"));
  for (const char* text : {"n1:0", "n1:", "n1:x", "n1:65537", "n1:-1", "n1:99999999999999999999", "[::1]:"}) {
    EXPECT_THAT(error_of(parse_hosts(text)), HasSubstr("the number of workers must be 1 to 65536")) << text;
  }
}

// ssh must never take a name for an option, nor a shell anything in it for its own.
TEST(Hosts, OnlyNamesOfHosts) {
  for (const char* text : {"-oProxyCommand=x", "-n1", "user@-n1", "-l@n1", "@n1", "user@", "a b", "n1;reboot", "$(x)",
                           "n1`x`", "n1/x", "n1\\x", "n\xc3\xa4", "'n1'", ":4"}) {
    EXPECT_FALSE(parse_hosts(text).ok()) << text;
  }
  EXPECT_THAT(hosts("n1\n"), ElementsAre(Host{"n1", {}}));
}

TEST(Hostfile, EveryForm) {
  EXPECT_THAT(hostfile("# nodes\n\nn1\nn2:4 # fast\n  n3 slots=2\t max_slots=8\r\nn[4-5]:3\nuser@n6 slots=1\n[::1]:2"),
              ElementsAre(Host{"n1", {}}, Host{"n2", 4}, Host{"n3", 2}, Host{"n4", 3}, Host{"n5", 3},
                          Host{"user@n6", 1}, Host{"::1", 2}));
}

TEST(Hostfile, SlotsAsSlurmWritesGpus) {
  EXPECT_THAT(hostfile("n1 slots=v100:4\nn2:a100:2\nn3 slots=gpu:v100:1,a100:2 max_slots=v100:8\nn4 slots=3090:2\n"),
              ElementsAre(Host{"n1", 4}, Host{"n2", 2}, Host{"n3", 3}, Host{"n4", 2}));
  EXPECT_THAT(error_of(parse_hostfile("n1 slots=v100:")),
              HasSubstr("line 1: \"slots=v100:\": the number of workers must be"));
  EXPECT_THAT(error_of(parse_hostfile("n1:22:4")), HasSubstr("line 1: \"n1:22:4\": 22 may be a port"));
}

TEST(Hostfile, AHostThatComesAgainAddsItsSlots) {
  EXPECT_THAT(hostfile("b\na\nb\nb\n"), ElementsAre(Host{"b", 3}, Host{"a", {}}));
  EXPECT_THAT(hostfile("a slots=4\na:2\na\n"), ElementsAre(Host{"a", 7}));
  EXPECT_THAT(hostfile("a slots=v100:4\na:a100:2\n"), ElementsAre(Host{"a", 6}));
}

TEST(Hostfile, ErrorsNameTheLine) {
  EXPECT_THAT(error_of(parse_hostfile("n1\n\nn2 slot=4\n")), HasSubstr("line 3: \"slot=4\" is unknown here"));
  EXPECT_THAT(error_of(parse_hostfile("n1 4")), HasSubstr("line 1: \"4\" is unknown here"));
  EXPECT_THAT(error_of(parse_hostfile("n1 slots=0")), HasSubstr("line 1: \"slots=0\": the number of workers must be"));
  EXPECT_EQ(error_of(parse_hostfile("n1:2 slots=2")), "line 1: n1 has two numbers of workers");
  EXPECT_EQ(error_of(parse_hostfile("n1:65536\nn1")), "line 2: n1 has more than 65536 workers");
  EXPECT_EQ(error_of(parse_hostfile("# none\n")), "no host is named; write one a line");
  EXPECT_EQ(error_of(parse_hostfile("")), "no host is named; write one a line");
  EXPECT_EQ(error_of(parse_hostfile("a[1-65536]\nb")), "line 2: these are more than 65536 hosts");
  std::string many;
  for (int i = 0; i < 17; ++i) many += "a[1-65536]\n";
  EXPECT_EQ(error_of(parse_hostfile(many)), "line 17: hosts are named more than 1048576 times");
}

}  // namespace
}  // namespace muster::cluster
