#include "muster/net/socket_owner.h"

#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstring>
#include <sstream>
#include <string>

#include "muster/base/fd.h"
#include "muster/net/interfaces.h"
#include "muster/net/socket.h"

namespace muster::net {
namespace {

// The bytes of an address as the kernel's tables have it: an IPv4 peer of a dual-stack socket is an IPv4 one.
int put_address(const Address& address, __be32 (&bytes)[4], __be16& port) {
  port = htons(address.port());
  if (address.storage.ss_family == AF_INET) {
    std::memcpy(bytes, &reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr, 4);
    return AF_INET;
  }
  const in6_addr& ip = reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&ip)) {
    std::memcpy(bytes, &ip.s6_addr[12], 4);
    return AF_INET;
  }
  std::memcpy(bytes, &ip, sizeof ip);
  return AF_INET6;
}

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

// "0100007F:1F90": 32 bits at a time, each as this machine reads them. `wide`: as tcp6 has it, where an IPv4 connection
// of a dual-stack socket is found too.
std::string table_words(const Address& address, bool wide) {
  __be32 words[4]{};
  __be16 port = 0;
  const bool four = put_address(address, words, port) == AF_INET;
  std::string text;
  if (four && wide) text = fmt::format("{:08X}{:08X}{:08X}", 0, 0, htonl(0xffff));
  for (int i = 0; i < (four ? 1 : 4); ++i) text += fmt::format("{:08X}", words[i]);
  return fmt::format("{}:{:04X}", text, ntohs(port));
}

std::optional<uid_t> ask_sock_diag(const Address& client, const Address& server) {
  Request request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0u;
  request.body.id.idiag_cookie[0] = request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  const int family = put_address(client, request.body.id.idiag_src, request.body.id.idiag_sport);
  if (put_address(server, request.body.id.idiag_dst, request.body.id.idiag_dport) != family) return std::nullopt;
  request.body.sdiag_family = static_cast<__u8>(family);

  Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!socket) return std::nullopt;
  // The kernel answers in the call itself; the time is for kernels that do not answer at all.
  timeval patience{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::send(socket.get(), &request, sizeof request, 0) != static_cast<ssize_t>(sizeof request)) return std::nullopt;
  alignas(nlmsghdr) char answer[4096];
  const ssize_t size = ::recv(socket.get(), answer, sizeof answer, 0);
  if (size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg)))) return std::nullopt;
  const auto* header = reinterpret_cast<const nlmsghdr*>(answer);
  if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  const auto* found = static_cast<const inet_diag_msg*>(NLMSG_DATA(header));
  // The kernel says root for a socket that no process has any more.
  return found->idiag_inode == 0 ? kNoOwner : found->idiag_uid;
}

}  // namespace

std::optional<uid_t> owner_in_table(std::string_view table, const Address& client, const Address& server) {
  for (bool wide : {false, true}) {
    const std::string sockets = fmt::format(" {} {} ", table_words(client, wide), table_words(server, wide));
    const size_t found = table.find(sockets);
    if (found == std::string_view::npos) continue;
    std::istringstream rest(std::string(table.substr(found + sockets.size(), 200)));  // no line is longer
    std::string state, queues, timer, retransmits, timeout;
    uid_t owner = 0;
    uint64_t inode = 0;
    if (rest >> state >> queues >> timer >> retransmits >> owner >> timeout >> inode)
      return inode == 0 ? kNoOwner : owner;
  }
  return std::nullopt;
}

std::optional<uid_t> owner_in_tables(const Address& client, const Address& server) {
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"})
    if (auto table = read_file(path))
      if (auto owner = owner_in_table(*table, client, server)) return owner;
  return std::nullopt;
}

std::optional<uid_t> connection_owner(const Address& client, const Address& server) {
  const auto told = ask_sock_diag(client, server);
  return told ? told : owner_in_tables(client, server);
}

bool owners_are_known() {
  constexpr const char* kLoopback = "127.0.0.1";
  auto listener = listen_tcp({.loopback_only = true});
  if (!listener) return true;
  auto client = connect_tcp(kLoopback, listener->port, Deadline::in(std::chrono::seconds(1)));
  if (!client) return true;
  auto source = local_address(client->get());
  auto target = parse_address(kLoopback, listener->port);
  return source && target && connection_owner(*source, *target) == ::getuid();
}

}  // namespace muster::net
