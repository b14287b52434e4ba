#include "muster/net/address.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "muster/net/interfaces.h"

namespace muster::net {
namespace {

TEST(Address, AMappedAddressReadsAsIpv4) {
  EXPECT_EQ(parse_address("::ffff:10.1.2.3", 80)->text(), "10.1.2.3:80");
  EXPECT_EQ(parse_address("fe80::1", 80)->text(), "[fe80::1]:80");
}

TEST(Address, HasAnotherPortAndIsTheSameOtherwise) {
  EXPECT_EQ(parse_address("10.1.2.3", 80)->with_port(81).text(), "10.1.2.3:81");
  EXPECT_EQ(parse_address("fe80::1", 0)->with_port(81).text(), "[fe80::1]:81");
}

// "host port", or the error.
std::string parts(Result<HostPort> (*read)(std::string_view), std::string_view text) {
  auto found = read(text);
  if (!found) return found.error().message;
  return fmt::format("{} {}", found->host, found->port ? std::to_string(*found->port) : "none");
}

TEST(Endpoint, HasAHostAndMayHaveAPort) {
  EXPECT_EQ(parts(parse_endpoint, "n1:29400"), "n1 29400");
  EXPECT_EQ(parts(parse_endpoint, "n1:0"), "n1 0");
  EXPECT_EQ(parts(parse_endpoint, "n1"), "n1 none");
  EXPECT_EQ(parts(parse_endpoint, "[fd00::1]:4711"), "fd00::1 4711");
  EXPECT_EQ(parts(parse_endpoint, "[fd00::1]"), "fd00::1 none");
  EXPECT_EQ(parts(parse_endpoint, "fd00::1:4711"), "fd00::1 4711") << "the last colon separates the port";
  EXPECT_EQ(parts(parse_endpoint, ":5"), " 5") << "callers say which hosts they take";
  EXPECT_EQ(parts(parse_endpoint, ""), " none");
  for (const std::string text : {"n1:", "n1:x", "n1:5x", "n1:-1", "n1:65536", "n1:+5", "[::1]:", "a:]"})
    EXPECT_EQ(parts(parse_endpoint, text), "'" + text + "' has no port from 0 to 65535");
}

TEST(Endpoint, ToConnectToHasAPort) {
  EXPECT_EQ(parts(split_endpoint, "[fd00::1]:4711"), "fd00::1 4711");
  for (const std::string text : {"n1", "n1:0", "[fd00::1]", ""})
    EXPECT_EQ(parts(split_endpoint, text), "'" + text + "' has no port");
  EXPECT_FALSE(split_endpoint("n1:").ok());
}

TEST(Endpoint, IsWrittenAsItIsRead) {
  for (const std::string host : {"n1", "10.0.0.1", "fd00::1"})
    EXPECT_EQ(parts(split_endpoint, endpoint_text(host, 4711)), host + " 4711");
}

}  // namespace
}  // namespace muster::net
