#include "muster/agent/round_store.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <utility>

#include "muster/base/random.h"
#include "muster/net/socket.h"

namespace muster::agent {
namespace {

using store::Admission;

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

class Doorkeeper {
 public:
  Doorkeeper(std::vector<std::string> members, Log& log, std::function<bool()> owners_known, IsOwnAddress is_own)
      : members_(members.begin(), members.end()),
        log_(log),
        owners_known_(std::move(owners_known)),
        is_own_(std::move(is_own)) {}

  Admission operator()(const net::Address& peer, const net::Address& local) {
    const std::string host = peer.host();
    if (elsewhere_.contains(host)) return Admission::kWelcome;
    const Result<bool> own = is_own_(peer);
    if (!own) return admit_unplaced(peer, local, own.error());
    if (*own) return admit_owner(peer, local);
    if (!members_.contains(host)) return Admission::kStranger;
    elsewhere_.insert(host);
    return Admission::kWelcome;
  }

 private:
  // It is not known whether the peer is on this machine: it is served only if the kernel says that it is this user's.
  Admission admit_unplaced(const net::Address& peer, const net::Address& local, const Error& why) {
    const auto owner = net::connection_owner(peer, local);
    if (owner == net::kNoOwner) return Admission::kGone;
    if (owner == ::getuid()) return Admission::kWelcome;
    if (!std::exchange(unplaced_, true)) log_.warn("the store refuses {}: {}", peer.text(), why.text());
    return Admission::kStranger;
  }

  Admission admit_owner(const net::Address& peer, const net::Address& local) {
    const auto owner = net::connection_owner(peer, local);
    // A node that tries whether it can reach the store (reach.h) has often hung up before the store looks at it.
    if (owner == net::kNoOwner) return Admission::kGone;
    if (owner) return *owner == ::getuid() ? Admission::kWelcome : Admission::kStranger;
    if (!asked_) {
      asked_ = owners_known_();
      if (!*asked_)
        log_.warn("the kernel does not tell whose connection {} is: other users of this machine can reach the store",
                  peer.text());
    }
    return *asked_ ? Admission::kStranger : Admission::kWelcome;
  }

  std::set<std::string> members_;
  std::set<std::string> elsewhere_;  // members on other machines: the list of interfaces is read once for each
  Log& log_;
  std::function<bool()> owners_known_;
  IsOwnAddress is_own_;
  std::optional<bool> asked_;  // what owners_known_ said
  bool unplaced_ = false;      // a peer was turned away because is_own_ had no answer
};

}  // namespace

Result<Fd> reserve_port(uint16_t port) {
  if (port != 0) {
    // Somebody who listens there does not keep us from binding; trying to listen tells, and who it is.
    MUSTER_TRY([[maybe_unused]] auto listener, net::listen_tcp({.port = port}));
  }
  return bind_without_listening(port);
}

store::AcceptPeer only_members(std::vector<std::string> members, Log& log, std::function<bool()> owners_known,
                               IsOwnAddress is_own) {
  return Doorkeeper(std::move(members), log, std::move(owners_known), std::move(is_own));
}

Result<RoundStore> RoundStore::open(net::EventLoop& loop, Log& log, const Options& options) {
  RoundStore store;
  store.port_ = options.port;
  if (options.host == job::StoreHost::kAgent) {
    store.server_ =
        std::make_unique<store::Server>(loop, log, store::ServerOptions{.accept_peer = options.accept_peer});
    if (!options.listens) return store;
    MUSTER_TRY_VOID(store.listen(options));
    store.port_ = store.server_->port();
  } else {
    MUSTER_TRY_VOID(store.reserve(options));
    MUSTER_TRY(net::Address address, net::local_address(store.reservation_.get()));
    store.port_ = address.port();
  }
  return store;
}

std::vector<uint16_t> ports_to_try(const job::PortRange& range) {
  const int count = range.last - range.first + 1;
  unsigned char random[2];
  fill_random(random);
  const int start = (random[0] << 8 | random[1]) % count;
  std::vector<uint16_t> ports;
  ports.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) ports.push_back(static_cast<uint16_t>(range.first + (start + i) % count));
  return ports;
}

static Error every_port_taken(const job::PortRange& range) {
  return {ErrorKind::kUsage, fmt::format("every port from {} to {} is taken", range.first, range.last),
          "give a wider --port-range"};
}

Result<void> RoundStore::listen(const Options& options) {
  if (options.port != 0 || options.ports.first == 0) return server_->listen(options.port);
  for (uint16_t port : ports_to_try(options.ports))
    if (server_->listen(port)) return {};
  return every_port_taken(options.ports);
}

Result<void> RoundStore::reserve(const Options& options) {
  if (options.port != 0 || options.ports.first == 0) {
    MUSTER_TRY(reservation_, reserve_port(options.port));
    return {};
  }
  for (uint16_t port : ports_to_try(options.ports)) {
    auto reserved = reserve_port(port);
    if (!reserved) continue;
    reservation_ = *std::move(reserved);
    return {};
  }
  return every_port_taken(options.ports);
}

void RoundStore::adopt(Fd socket, const net::Address& peer, std::string_view first_bytes) {
  if (server_) server_->adopt(std::move(socket), peer, first_bytes);
}

Result<RoundStore> open_round_store(net::EventLoop& loop, Log& log, const job::JobSpec& job,
                                    const std::vector<std::string>& members) {
  RoundStore::Options options{
      .host = job.store_host, .port = job.master_port, .accept_peer = only_members(members, log)};
  if (job.membership) {
    options.ports = job.membership->ports;
    options.listens = !job.membership->store_on_coordinator_port;
  }
  auto opened = RoundStore::open(loop, log, options);
  // All nodes are told the port by the launcher, so any will do.
  const bool any_will_do = options.port != 0 && job.membership && job.membership->output_to_launcher;
  if (opened || !any_will_do || opened.error().kind != ErrorKind::kUsage) return opened;
  log.warn("--master-port: {}; taking a free one", opened.error().message);
  options.port = 0;
  return RoundStore::open(loop, log, options);
}

}  // namespace muster::agent
