#include "muster/agent/round_store.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "muster/net/socket.h"

namespace muster::agent {
namespace {

Result<Fd> bind_without_listening(uint16_t port) {
  for (int family : {AF_INET6, AF_INET}) {
    Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd) continue;
    int on = 1;
    int off = 0;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_storage address{};
    address.ss_family = static_cast<sa_family_t>(family);
    // The port is at the same place in both.
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
    socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0) return fd;
  }
  return system_error(errno, "cannot reserve a port");
}

}  // namespace

Result<Fd> reserve_port(uint16_t port) {
  if (port != 0) {
    // Somebody who listens there does not keep us from binding; trying to listen tells, and who it is.
    MUSTER_TRY([[maybe_unused]] auto listener, net::listen_tcp({.port = port}));
  }
  return bind_without_listening(port);
}

bool is_this_machine(const net::Address& peer) {
  if (peer.is_loopback()) return true;
  // Only an address of our own can be bound.
  net::Address address = peer;
  reinterpret_cast<sockaddr_in&>(address.storage).sin_port = 0;
  Fd fd(::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return fd && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) == 0;
}

Result<RoundStore> RoundStore::open(net::EventLoop& loop, Log& log, const JobSpec& job) {
  RoundStore store;
  if (job.store_host == StoreHost::kAgent) {
    store.server_ = std::make_unique<store::Server>(loop, log, store::ServerOptions{.accept_peer = is_this_machine});
    MUSTER_TRY_VOID(store.server_->listen(job.master_port));
    store.port_ = store.server_->port();
  } else {
    MUSTER_TRY(store.reservation_, reserve_port(job.master_port));
    MUSTER_TRY(net::Address address, net::local_address(store.reservation_.get()));
    store.port_ = address.port();
  }
  return store;
}

}  // namespace muster::agent
