#include "muster/store/server.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "muster/net/socket.h"
#include "muster/store/server_impl.h"

namespace muster::store {
namespace {

constexpr int kReadsPerTurn = 16;  // then it is the others' turn
constexpr int kAcceptsPerTurn = 256;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

}  // namespace

Result<void> Server::Impl::listen(uint16_t port, bool loopback_only) {
  MUSTER_CHECK(!listener_);
  MUSTER_TRY(net::Listener listener, net::listen_tcp({.port = port, .loopback_only = loopback_only}));
  listener_ = std::move(listener.fd);
  port_ = listener.port;
  loop_.watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept_some(); });
  return {};
}

void Server::Impl::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    net::Address peer;
    Result<Fd> fd = net::accept_tcp(listener_.get(), &peer);
    if (!fd) return pause_accepting(fd.error());
    if (!*fd) return;
    accept_failed_ = false;
    add(*std::move(fd), peer);
  }
}

// Out of descriptors or memory: the connection stays in the backlog, and asking again at once would spin.
void Server::Impl::pause_accepting(const Error& error) {
  if (!std::exchange(accept_failed_, true)) log_.warn("store: cannot accept connections: {}", error.text());
  loop_.unwatch(listener_.get());
  accept_again_ = loop_.call_after(kAcceptPause, [this] {
    accept_again_ = 0;
    loop_.watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept_some(); });
  });
}

Admission Server::Impl::admission(int fd, const net::Address& peer) const {
  if (!options_.accept_peer) return Admission::kWelcome;
  auto local = net::local_address(fd);
  // Of a connection that was reset the kernel tells nothing, and what it brought could be anybody's. Before: it would be
  // looked for everywhere, and missed. After: it may have been reset meanwhile.
  if (!local || net::is_reset(fd)) return Admission::kGone;
  const Admission admission = options_.accept_peer(peer, *local);
  return net::is_reset(fd) ? Admission::kGone : admission;
}

// Some at once, then one a second: whoever scans ports does not fill the job's log.
void Server::Impl::warn_of(const std::string& stranger) {
  constexpr size_t kAtOnce = 8;
  const auto seconds = (loop_.now() - warned_) / std::chrono::seconds(1);
  warnings_ -= std::min(warnings_, static_cast<size_t>(seconds));
  if (warnings_ == kAtOnce) {
    ++unsaid_;
    return;
  }
  ++warnings_;
  warned_ = loop_.now();
  const std::string others = unsaid_ == 0 ? "" : fmt::format(" (and {} more before)", unsaid_);
  unsaid_ = 0;
  log_.warn("store: {}{}", stranger, others);
}

Connection* Server::Impl::add(Fd fd, const net::Address& peer) {
  const Admission admission = this->admission(fd.get(), peer);
  if (admission == Admission::kStranger)
    warn_of(fmt::format("refused {}: not known as a member of this job", peer.text()));
  if (admission != Admission::kWelcome) return nullptr;
  size_t& from_there = open_from_[peer.host()];
  if (from_there >= options_.max_connections_per_peer) {
    warn_of(fmt::format("refused {}: this address has {} connections already", peer.text(), from_there));
    return nullptr;
  }
  ++from_there;
  auto index = static_cast<size_t>(fd.get());
  if (by_fd_.size() <= index) by_fd_.resize(index + 1);
  by_fd_[index] = std::make_unique<Connection>(std::move(fd), peer, next_serial_++, options_.max_request);
  Connection* connection = by_fd_[index].get();
  ++open_;
  loop_.watch(connection->fd.get(), Connection::kReadable,
              [this, connection](uint32_t events) { on_event(*connection, events); });
  return connection;
}

void Server::Impl::adopt(Fd fd, const net::Address& peer, std::string_view first_bytes) {
  Connection* connection = add(std::move(fd), peer);
  if (connection == nullptr) return;
  received(*connection, first_bytes);
  while (!dirty_.empty()) send_dirty();  // perhaps the loop does not run now
}

Connection* Server::Impl::find(int fd, uint64_t serial) {
  auto index = static_cast<size_t>(fd);
  if (index >= by_fd_.size() || !by_fd_[index] || by_fd_[index]->serial != serial) return nullptr;
  return by_fd_[index].get();
}

void Server::Impl::on_event(Connection& connection, uint32_t events) {
  if ((events & EPOLLOUT) != 0 && connection.unsent() > 0) {
    flush(connection);
    resume(connection);
  }
  if (connection.open() && (events & ~uint32_t{EPOLLOUT}) != 0)
    read(connection, (events & ~uint32_t{EPOLLIN | EPOLLOUT}) != 0);
}

// Edge-triggered: reads until the socket is empty, which a short read proves without another call. Only behind a
// hang-up is there something more to learn: the end of the stream.
void Server::Impl::read(Connection& connection, bool hang_up) {
  connection.more_to_read = true;
  for (int i = 0; i < kReadsPerTurn; ++i) {
    if (!connection.open() || connection.paused) return;
    ssize_t size = ::recv(connection.fd.get(), scratch_.data(), scratch_.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) {
      connection.more_to_read = false;
      return;
    }
    if (size <= 0) {
      flush(connection);  // a peer that closed only its sending side still gets what it asked for
      return drop(connection);
    }
    received(connection, {scratch_.data(), static_cast<size_t>(size)});
    if (static_cast<size_t>(size) < scratch_.size() && !hang_up) {
      connection.more_to_read = false;
      return;
    }
  }
  loop_.defer([this, alive = std::weak_ptr(alive_), fd = connection.fd.get(), serial = connection.serial, hang_up] {
    if (alive.expired()) return;
    if (Connection* again = find(fd, serial)) read(*again, hang_up);
  });
}

void Server::Impl::received(Connection& connection, std::string_view bytes) {
  if (connection.input.empty()) {
    size_t used = execute_all(connection, bytes);
    if (connection.open() && used < bytes.size()) connection.input.assign(bytes.substr(used));
    return;
  }
  connection.input.append(bytes);
  if (connection.input.size() < connection.parser.needed()) return;
  size_t used = execute_all(connection, connection.input);
  if (!connection.open()) return;
  connection.input.erase(0, used);
  if (connection.input.empty() && connection.input.capacity() > Connection::kKeepBuffer)
    connection.input = std::string();
}

void Server::Impl::drop(Connection& connection) {
  if (!connection.open()) return;
  if (connection.grace != 0) loop_.cancel(connection.grace);
  int fd = connection.fd.get();
  loop_.unwatch(fd);
  connection.fd.reset();
  --open_;
  if (auto from = open_from_.find(connection.peer.host()); --from->second == 0) open_from_.erase(from);
  table_->forget(connection);
  closed_.push_back(std::move(by_fd_[static_cast<size_t>(fd)]));
}

void Server::Impl::close() {
  if (listener_) loop_.unwatch(listener_.get());
  if (accept_again_ != 0) loop_.cancel(std::exchange(accept_again_, 0));
  if (promise_timer_ != 0) loop_.cancel(std::exchange(promise_timer_, 0));
  listener_.reset();
  port_ = 0;
  for (auto& connection : by_fd_)
    if (connection) drop(*connection);
  dirty_.clear();
  closed_.clear();
  by_fd_.clear();
  table_ = std::make_unique<Table>(*this);
}

Server::Server(net::EventLoop& loop, Log& log, ServerOptions options)
    : impl_(std::make_unique<Impl>(loop, log, std::move(options))) {}
Server::~Server() = default;
Result<void> Server::listen(uint16_t port, bool loopback_only) { return impl_->listen(port, loopback_only); }
uint16_t Server::port() const { return impl_->port(); }
void Server::adopt(Fd connection, const net::Address& peer, std::string_view first_bytes) {
  impl_->adopt(std::move(connection), peer, first_bytes);
}
void Server::close() { impl_->close(); }
size_t Server::connections() const { return impl_->connections(); }
size_t Server::keys() const { return impl_->keys(); }

}  // namespace muster::store
