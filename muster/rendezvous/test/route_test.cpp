#include "muster/rendezvous/route.h"

#include <gtest/gtest.h>

#include "muster/net/interfaces.h"

namespace muster::rendezvous {
namespace {

using List = std::vector<std::string>;

Route route(const char* seen, const char* reached, List own = {}) {
  return {*net::parse_address(seen, 4000), *net::parse_address(reached, 4711), std::move(own)};
}

TEST(Route, AllOnOneMachineMeetOnLoopback) {
  RouteMap routes = {{1, route("127.0.0.1", "127.0.0.1", {"10.0.0.1"})}, {2, route("127.0.0.1", "127.0.0.1")}};
  EXPECT_EQ(addresses_towards(routes, 2, 1), (List{"127.0.0.1", "10.0.0.1"}));
  EXPECT_EQ(own_address(routes, 1), "127.0.0.1");
}

TEST(Route, ANodeBesideTheCoordinatorIsFoundWhereTheCoordinatorWas) {
  RouteMap routes = {{1, route("127.0.0.1", "127.0.0.1", {"10.0.0.1", "192.168.0.1"})},
                     {2, route("192.168.0.2", "192.168.0.1", {"192.168.0.2"})}};
  EXPECT_EQ(addresses_towards(routes, 2, 1).front(), "192.168.0.1");
  EXPECT_EQ(addresses_towards(routes, 1, 1).front(), "192.168.0.1");
  EXPECT_EQ(own_address(routes, 1), "192.168.0.1");
  EXPECT_EQ(own_address(routes, 2), "192.168.0.2");
}

TEST(Route, ANodeThatCameByItsOwnAddressIsOnThisMachineToo) {
  RouteMap routes = {{1, route("192.168.0.1", "192.168.0.1")}, {2, route("10.0.0.2", "10.0.0.1")}};
  EXPECT_EQ(addresses_towards(routes, 2, 1).front(), "10.0.0.1");
}

TEST(Route, RemoteNodesAreFoundWhereTheyWereSeenFirst) {
  RouteMap routes = {{1, route("10.0.0.2", "10.0.0.1", {"172.16.0.2", "10.0.0.2"})},
                     {2, route("10.0.0.3", "10.0.0.1", {"10.0.0.3"})}};
  EXPECT_EQ(addresses_towards(routes, 2, 1), (List{"10.0.0.2", "172.16.0.2"}));
  EXPECT_EQ(member_addresses(routes), (List{"10.0.0.2", "172.16.0.2", "10.0.0.3"}));
}

TEST(Route, OfNobodyIsEmpty) {
  EXPECT_TRUE(addresses_towards({}, 1, 2).empty());
  EXPECT_EQ(own_address({}, 1), "");
}

}  // namespace
}  // namespace muster::rendezvous
