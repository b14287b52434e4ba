#include "muster/net/address.h"

#include <gtest/gtest.h>

namespace muster::net {
namespace {

TEST(Address, AMappedAddressReadsAsIpv4) {
  auto mapped = resolve("::ffff:10.1.2.3", 80);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(mapped->at(0).text(), "10.1.2.3:80");
  auto real = resolve("fe80::1", 80);
  ASSERT_TRUE(real.ok());
  EXPECT_EQ(real->at(0).text(), "[fe80::1]:80");
}

TEST(Resolve, LiteralsNeedNoResolver) {
  auto v4 = resolve("127.0.0.1", 5);
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->front().text(), "127.0.0.1:5");
  EXPECT_TRUE(v4->front().is_loopback());
  auto v6 = resolve("::1", 5);
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->front().text(), "[::1]:5");
  EXPECT_TRUE(v6->front().is_loopback());
}

}  // namespace
}  // namespace muster::net
