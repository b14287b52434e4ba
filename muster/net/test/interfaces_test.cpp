#include "muster/net/interfaces.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "muster/base/fd.h"

namespace muster::net {
namespace {

std::vector<InterfaceAddress> machine() {
  std::vector<InterfaceAddress> all;
  auto add = [&](const char* name, const char* address) {
    all.push_back({name, *parse_address(address, 0), std::string_view(name) == "lo"});
  };
  add("lo", "127.0.0.1");
  add("eth0", "192.168.1.7");
  add("ib0", "10.1.2.3");
  add("ib0", "fd00:1::7");
  return all;
}

std::vector<std::string> selected(std::string_view wanted) {
  std::vector<std::string> hosts;
  auto chosen = select_interfaces(machine(), wanted);
  if (!chosen) return {chosen.error().text()};
  for (const InterfaceAddress& each : *chosen) hosts.push_back(each.address.host());
  return hosts;
}

using Hosts = std::vector<std::string>;

TEST(SelectInterfaces, ByNameAddressAndNetwork) {
  EXPECT_EQ(selected("ib0"), (Hosts{"10.1.2.3", "fd00:1::7"}));
  EXPECT_EQ(selected("192.168.1.7"), Hosts{"192.168.1.7"});
  EXPECT_EQ(selected("10.0.0.0/8"), Hosts{"10.1.2.3"});
  EXPECT_EQ(selected("10.1.2.2/31"), Hosts{"10.1.2.3"});
  EXPECT_EQ(selected("fd00::/16"), Hosts{"fd00:1::7"});
}

TEST(SelectInterfaces, NamesWhatThereIs) {
  const std::string there = "; there are eth0 (192.168.1.7), ib0 (10.1.2.3), ib0 (fd00:1::7)";
  EXPECT_EQ(selected("eth7"), Hosts{"no interface of this machine is 'eth7'" + there});
  EXPECT_EQ(selected("10.1.2.0/31"), Hosts{"no interface of this machine is '10.1.2.0/31'" + there});
  EXPECT_EQ(selected("10.0.0.0/33"), Hosts{"'10.0.0.0/33' is not a network; write it as 10.0.0.0/8"});
  EXPECT_EQ(selected("10.0.0.0/"), Hosts{"'10.0.0.0/' is not a network; write it as 10.0.0.0/8"});
}

TEST(InterfaceOf, KnowsWhoHasAnAddress) {
  EXPECT_EQ(interface_of(machine(), "10.1.2.3"), "ib0");
  EXPECT_EQ(interface_of(machine(), "10.1.2.4"), "");
}

TEST(InterfaceAddresses, LoopbackIsThere) {
  auto all = interface_addresses();
  EXPECT_TRUE(std::any_of(all.begin(), all.end(),
                          [](const auto& each) { return each.loopback && each.address.host() == "127.0.0.1"; }));
}

TEST(OwnAddress, IsOneOfAnInterface) {
  for (const char* own : {"127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(is_own_address(*parse_address(own, 1))) << own;
  for (const InterfaceAddress& each : interface_addresses()) EXPECT_TRUE(is_own_address(each.address.with_port(1)));
  for (const char* other : {"192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1"})  // of documentation
    EXPECT_FALSE(is_own_address(*parse_address(other, 1))) << other;
}

TEST(OwnAddress, IsNotKnownWithoutADescriptor) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) ::_exit(2);
    const bool loopback = is_own_address(*parse_address("127.0.0.1", 1));
    ::_exit(loopback && !look_up_own_address(*parse_address("192.0.2.1", 1)).ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// In a network of its own, in which the kernel lets a process bind any address.
TEST(OwnAddress, IsNotEveryOneThatCanBeBound) {
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr int kCannot = 77;
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(kCannot);
    for (const char* name : {"/proc/sys/net/ipv4/ip_nonlocal_bind", "/proc/sys/net/ipv6/ip_nonlocal_bind"}) {
      const Fd file(::open(name, O_WRONLY));
      if (!file || ::write(file.get(), "1", 1) != 1) ::_exit(kCannot);
    }
    const bool any = is_own_address(*parse_address("192.0.2.1", 1)) || is_own_address(*parse_address("2001:db8::1", 1));
    ::_exit(any ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no namespaces permitted here";
  EXPECT_EQ(status, 0);
}

TEST(SourceAddress, OfLoopbackIsLoopback) {
  auto source = source_address_towards(*parse_address("127.0.0.1", 0));
  ASSERT_TRUE(source.ok()) << source.error().text();
  EXPECT_TRUE(source->is_loopback());
}

}  // namespace
}  // namespace muster::net
