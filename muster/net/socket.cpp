#include "muster/net/socket.h"

#include <dirent.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <set>
#include <thread>

#include "muster/base/strings.h"
#include "muster/net/resolve.h"

namespace muster::net {
namespace {

constexpr auto kConnectRetryPause = std::chrono::milliseconds(50);

void set_option(int fd, int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); }

Address any_address(int family, const ListenOptions& options) {
  Address address;
  address.storage.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET6) {
    auto& in6 = reinterpret_cast<sockaddr_in6&>(address.storage);
    in6.sin6_port = htons(options.port);
    in6.sin6_addr = in6addr_any;
    address.length = sizeof(sockaddr_in6);
  } else {
    auto& in4 = reinterpret_cast<sockaddr_in&>(address.storage);
    in4.sin_port = htons(options.port);
    in4.sin_addr.s_addr = htonl(options.loopback_only ? INADDR_LOOPBACK : INADDR_ANY);
    address.length = sizeof(sockaddr_in);
  }
  return address;
}

// errno of the step that failed, or 0.
int try_listen(int family, const ListenOptions& options, Fd& listener) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);  // inherited by accepted sockets
  if (family == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  Address address = any_address(family, options);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address.storage), address.length) != 0) return errno;
  if (::listen(fd.get(), options.backlog) != 0) return errno;
  listener = std::move(fd);
  return 0;
}

// Inodes of sockets that listen on the port, from /proc/net/tcp{,6}: "sl local rem st … inode", state 0A = LISTEN.
std::set<std::string> listening_inodes(uint16_t port) {
  std::set<std::string> inodes;
  std::string wanted = fmt::format(":{:04X}", port);
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    auto text = read_file(path);
    if (!text) continue;
    for (std::string_view line : split(*text, '\n')) {
      std::vector<std::string_view> fields;
      for (std::string_view field : split(line, ' '))
        if (!field.empty()) fields.push_back(field);
      if (fields.size() > 9 && fields[3] == "0A" && fields[1].ends_with(wanted)) inodes.insert(std::string(fields[9]));
    }
  }
  return inodes;
}

}  // namespace

Result<Listener> listen_tcp(const ListenOptions& options) {
  Fd fd;
  int error = options.loopback_only ? EAFNOSUPPORT : try_listen(AF_INET6, options, fd);
  if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL || error == EPROTONOSUPPORT)
    error = try_listen(AF_INET, options, fd);
  if (error == EADDRINUSE) {
    std::string holder = port_holder(options.port);
    return Error{ErrorKind::kUsage,
                 fmt::format("port {} is taken{}", options.port, holder.empty() ? "" : " by " + holder),
                 "choose another one, or 0: then a free one is taken"};
  }
  if (error == EACCES)
    return Error{ErrorKind::kUsage, fmt::format("port {} needs privileges", options.port), "choose one above 1023"};
  if (error != 0) return system_error(error, fmt::format("cannot listen on port {}", options.port));
  MUSTER_TRY(Address bound, local_address(fd.get()));
  return Listener{std::move(fd), bound.port()};
}

Result<Fd> accept_tcp(int listener, Address* peer) {
  Address address;
  address.length = sizeof address.storage;
  Fd fd(::accept4(listener, reinterpret_cast<sockaddr*>(&address.storage), &address.length,
                  SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) {
    // A connection that vanished before it was accepted is nobody's error.
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return Fd();
    return system_error(errno, "accept");
  }
  if (peer != nullptr) *peer = address;
  return fd;
}

int start_connect(const Address& peer, Fd& socket) {
  socket.reset(::socket(peer.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno;
  set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&peer.storage), peer.length) == 0) return 0;
  const int error = errno;
  if (error == EINPROGRESS) return 0;
  socket.reset();
  return error;
}

int connect_error(int socket) {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return error;
  Address peer;
  peer.length = sizeof peer.storage;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer.storage), &peer.length) != 0) return ECONNRESET;
  auto local = local_address(socket);
  return local && local->text() == peer.text() ? ECONNREFUSED : 0;
}

int connect_until(const Address& peer, Deadline deadline, Fd& socket) {
  if (int error = start_connect(peer, socket)) return error;
  int error = wait_for(socket.get(), POLLOUT, deadline);
  if (error == 0) error = connect_error(socket.get());
  if (error != 0) socket.reset();
  return error;
}

Result<Fd> connect_tcp(const std::string& host, uint16_t port, Deadline deadline) {
  MUSTER_TRY(std::vector<Address> addresses, resolve(host, port, deadline));
  int error = 0;
  while (true) {
    for (const Address& address : addresses) {
      Fd connection;
      error = connect_until(address, deadline, connection);
      if (error == 0) return connection;
    }
    bool may_come_up = error == ECONNREFUSED || error == ECONNRESET || error == ETIMEDOUT || error == EAGAIN;
    if (!may_come_up || deadline.passed()) break;
    std::this_thread::sleep_for(
        std::min<Duration>(kConnectRetryPause, std::max(deadline.time() - Clock::now(), Duration(0))));
  }
  ErrorKind kind = deadline.passed() ? ErrorKind::kTimeout : ErrorKind::kPeer;
  return Error{kind, fmt::format("cannot connect to {}:{}: {}", host, port, std::strerror(error)), {}};
}

int wait_for(int fd, short events, Deadline deadline) {
  pollfd waiting{fd, events, 0};
  int ready;
  do {
    ready = ::poll(&waiting, 1, deadline.poll_timeout());
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) return errno;
  return ready == 0 ? ETIMEDOUT : 0;
}

Result<Address> local_address(int socket) {
  Address address;
  address.length = sizeof address.storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0)
    return system_error(errno, "getsockname");
  return address;
}

bool is_reset(int socket) {
  pollfd ask{.fd = socket, .events = 0, .revents = 0};
  return ::poll(&ask, 1, 0) == 1 && (ask.revents & POLLERR) != 0;
}

std::string port_holder(uint16_t port) {
  std::set<std::string> inodes = listening_inodes(port);
  if (inodes.empty()) return {};
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return {};
  std::string holder;
  for (dirent* entry = ::readdir(proc); entry != nullptr && holder.empty(); entry = ::readdir(proc)) {
    std::string pid = entry->d_name;
    if (!parse_int(pid)) continue;
    std::string folder = "/proc/" + pid + "/fd";
    DIR* fds = ::opendir(folder.c_str());
    if (fds == nullptr) continue;
    for (dirent* fd = ::readdir(fds); fd != nullptr && holder.empty(); fd = ::readdir(fds)) {
      char target[64];
      ssize_t size = ::readlink((folder + "/" + fd->d_name).c_str(), target, sizeof target);
      std::string_view link(target, size > 0 ? static_cast<size_t>(size) : 0);
      if (!link.starts_with("socket:[") || !link.ends_with("]")) continue;
      if (!inodes.contains(std::string(link.substr(8, link.size() - 9)))) continue;
      auto name = read_file("/proc/" + pid + "/comm");
      holder = fmt::format("pid {} ({})", pid, name ? std::string(trim(*name)) : "?");
    }
    ::closedir(fds);
  }
  ::closedir(proc);
  return holder;
}

}  // namespace muster::net
