#include "muster/rendezvous/route.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "muster/net/interfaces.h"

namespace muster::rendezvous {
namespace {

using List = std::vector<std::string>;

struct Way {
  const char* seen;
  const char* reached;
  List own;
};

// Nodes 1, 2, …
Routes routes_of(const std::vector<Way>& ways) {
  Routes routes;
  NodeId node = 0;
  for (const Way& way : ways)
    routes.add(++node, *net::parse_address(way.seen, 4000), *net::parse_address(way.reached, 4711), way.own);
  return routes;
}

TEST(Routes, AllOnOneMachineMeetOnLoopback) {
  Routes routes = routes_of({{"127.0.0.1", "127.0.0.1", {"10.0.0.1"}}, {"127.0.0.1", "127.0.0.1", {}}});
  EXPECT_EQ(routes.towards(2, 1), (List{"127.0.0.1", "10.0.0.1"}));
  EXPECT_EQ(routes.own_address(1), "127.0.0.1");
}

TEST(Routes, ANodeBesideTheCoordinatorIsFoundWhereTheCoordinatorWas) {
  Routes routes = routes_of(
      {{"127.0.0.1", "127.0.0.1", {"10.0.0.1", "192.168.0.1"}}, {"192.168.0.2", "192.168.0.1", {"192.168.0.2"}}});
  EXPECT_EQ(routes.towards(2, 1).front(), "192.168.0.1");
  EXPECT_EQ(routes.towards(1, 1).front(), "192.168.0.1");
  EXPECT_EQ(routes.own_address(1), "192.168.0.1");
  EXPECT_EQ(routes.own_address(2), "192.168.0.2");
}

TEST(Routes, WhenTheLastOneElsewhereIsGoneTheRestMeetOnLoopbackAgain) {
  Routes routes = routes_of({{"127.0.0.1", "127.0.0.1", {}}, {"192.168.0.2", "192.168.0.1", {}}});
  routes.remove(2);
  EXPECT_EQ(routes.own_address(1), "127.0.0.1");
  EXPECT_EQ(routes.all(), (List{"127.0.0.1"}));
}

TEST(Routes, ANodeThatCameByItsOwnAddressIsOnThisMachineToo) {
  Routes routes = routes_of({{"192.168.0.1", "192.168.0.1", {}}, {"10.0.0.2", "10.0.0.1", {}}});
  EXPECT_EQ(routes.towards(2, 1).front(), "10.0.0.1");
}

TEST(Routes, RemoteNodesAreFoundWhereTheyWereSeenFirst) {
  Routes routes =
      routes_of({{"10.0.0.2", "10.0.0.1", {"172.16.0.2", "10.0.0.2"}}, {"10.0.0.3", "10.0.0.1", {"10.0.0.3"}}});
  EXPECT_EQ(routes.towards(2, 1), (List{"10.0.0.2", "172.16.0.2"}));
  EXPECT_EQ(routes.all(), (List{"10.0.0.2", "10.0.0.3", "172.16.0.2"}));
}

TEST(Routes, AnInterfaceOfChoiceComesBeforeWhatWasSeen) {
  Routes routes;
  const net::Address coordinator = *net::parse_address("10.0.0.1", 4711);
  routes.add(1, coordinator, coordinator, {"10.1.0.1"}, true);
  routes.add(2, *net::parse_address("10.0.0.2", 4000), coordinator, {"10.1.0.2"}, true);
  EXPECT_EQ(routes.towards(2, 1), (List{"10.1.0.1", "10.0.0.1"}));
  EXPECT_EQ(routes.towards(1, 1), (List{"10.1.0.1", "10.0.0.1"}));
  EXPECT_EQ(routes.towards(1, 2), (List{"10.1.0.2", "10.0.0.2"}));
}

TEST(Routes, NoMoreThanAMessageHolds) {
  List many;
  for (size_t i = 0; i < kMostElements; ++i) many.push_back(fmt::format("fd00::{:x}", i));
  Routes routes = routes_of({{"10.0.0.2", "10.0.0.1", many}, {"10.0.0.3", "10.0.0.1", {}}});
  List all = routes.all();
  EXPECT_EQ(all.size(), kMostElements);
  EXPECT_EQ(all[1], "10.0.0.3");
}

TEST(Routes, OfNobodyAreEmpty) {
  EXPECT_TRUE(Routes().towards(1, 2).empty());
  EXPECT_EQ(Routes().own_address(1), "");
}

}  // namespace
}  // namespace muster::rendezvous
