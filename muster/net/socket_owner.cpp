#include "muster/net/socket_owner.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstring>

#include "muster/base/fd.h"

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

}  // namespace

std::optional<uid_t> connection_owner(const Address& client, const Address& server) {
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

}  // namespace muster::net
