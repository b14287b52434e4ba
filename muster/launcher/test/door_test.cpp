#include "muster/launcher/door.h"

#include <gtest/gtest.h>

#include <set>

namespace muster::launcher {
namespace {

TEST(DerivedPorts, AreTheSameOnEveryNodeAndSixteen) {
  const auto ports = derived_ports(29400, "job 7");
  EXPECT_EQ(ports, derived_ports(29400, "job 7"));
  EXPECT_EQ(ports.front(), 29400);
  EXPECT_EQ(std::set<uint16_t>(ports.begin(), ports.end()).size(), 16u);
  EXPECT_NE(ports, derived_ports(29400, "job 8"));
  for (uint16_t port : ports) EXPECT_TRUE(port >= 20000 && port < 32768) << port;
}

TEST(OpenDoor, TakesAFreePortOfTheRange) {
  auto first = open_door({});
  ASSERT_TRUE(first.ok());
  const uint16_t taken = first->port;
  auto none = open_door({taken, taken});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().text(),
            fmt::format("--port-range: every port from {0} to {0} is taken; give a wider range", taken));
}

TEST(OwnEndpoints, AnInterfaceThatIsNotThere) {
  auto endpoints = own_endpoints(4711, "nosuch0", {});
  ASSERT_FALSE(endpoints.ok());
  EXPECT_NE(endpoints.error().message.find("no interface of this machine is 'nosuch0'"), std::string::npos);
}

}  // namespace
}  // namespace muster::launcher
