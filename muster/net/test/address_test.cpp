#include "muster/net/address.h"

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

}  // namespace
}  // namespace muster::net
