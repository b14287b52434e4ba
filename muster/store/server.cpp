#include "muster/store/server.h"

#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "muster/net/batch_send.h"
#include "muster/net/socket.h"
#include "muster/store/table.h"
#include "muster/store/wire.h"

namespace muster::store {
namespace {

constexpr size_t kReadSize = 64 << 10;  // shared by all connections
constexpr int kReadsPerTurn = 16;       // then it is the others' turn
constexpr int kAcceptsPerTurn = 256;
// A client that streams requests without an answer (SET) would wake us for each of them, and on a busy core take turns
// with us. After so many such turns the core is left to it once before we wait, and the requests come in numbers.
constexpr int kStreaming = 16;
constexpr size_t kSendInPlace = 16 << 10;  // larger values are sent from where they are stored
constexpr size_t kKeepBuffer = 1 << 10;    // an idle connection keeps no more than this
constexpr size_t kShownKey = 100;
constexpr uint32_t kReadable = EPOLLIN | EPOLLRDHUP | EPOLLET;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
// How long the rest of a 2.1 client's APPEND may be behind its key before the message is taken for a 1.13 client's
// DELETE_KEY. Costs such a client this much once; see wire.h.
constexpr auto kAmbiguityGrace = std::chrono::milliseconds(20);

std::string shown(std::string_view key) {
  std::string text;
  for (char c : key.substr(0, kShownKey)) text += c >= ' ' && c <= '~' ? c : '?';
  if (key.size() > kShownKey) text += "…";
  return text;
}

struct Connection : Waiter {
  Connection(Fd fd, const net::Address& peer, uint64_t serial) : fd(std::move(fd)), peer(peer), serial(serial) {}

  bool open() const { return static_cast<bool>(fd); }
  size_t unsent() const { return output.size() - sent; }

  Fd fd;
  net::Address peer;
  uint64_t serial;  // in order of arrival
  Parser parser;
  std::string input;   // an incomplete request, or requests that wait until `output` is gone
  std::string output;  // replies from `sent` on are still to be sent
  size_t sent = 0;
  net::EventLoop::TimerId grace = 0;
  bool watcher = false;       // a 1.13 client's second connection
  bool paused = false;        // too much output: do not look at input
  bool more_to_read = false;  // the socket was not read empty
  bool want_write = false;    // EPOLLOUT is armed
  bool dirty = false;         // in Server::Impl::dirty_
};

}  // namespace

class Server::Impl final : public Table::Observer {
 public:
  Impl(net::EventLoop& loop, Log& log, ServerOptions options)
      : loop_(loop),
        log_(log),
        options_(std::move(options)),
        table_(std::make_unique<Table>(*this)),
        scratch_(kReadSize),
        end_hook_(loop.add_end_hook([this] { finish_turn(); })) {}
  ~Impl() {
    close();
    loop_.remove_end_hook(end_hook_);
  }

  Result<void> listen(uint16_t port, bool loopback_only);
  uint16_t port() const { return port_; }
  void adopt(Fd fd, const net::Address& peer, std::string_view first_bytes);
  void close();
  size_t connections() const { return open_; }
  size_t keys() const { return table_->size(); }

  void released(Waiter& waiter) override;
  void changed(Waiter& watcher, Change change, std::string_view key, std::string_view old_value,
               std::string_view new_value) override;

 private:
  enum class Outcome : uint8_t { kGoOn, kClosed };

  void accept_some();
  void pause_accepting(const Error& error);
  Connection* add(Fd fd, const net::Address& peer);
  Connection* find(int fd, uint64_t serial);
  void on_event(Connection& connection, uint32_t events);
  void read(Connection& connection, bool hang_up);
  void received(Connection& connection, std::string_view bytes);
  size_t execute_all(Connection& connection, std::string_view bytes);
  size_t execute_some(Connection& connection, std::string_view bytes);
  void resolve_ambiguity(Connection& connection, std::string_view bytes);
  bool has_companion(const Connection& connection) const;
  Outcome execute(Connection& connection, const Request& request);
  Outcome reply_value(Connection& connection, std::string_view value);
  Outcome reply_values(Connection& connection, const StringList& keys);
  Outcome reply_keys(Connection& connection);
  Outcome not_a_number(Connection& connection, const Request& request);
  Outcome too_much_output(Connection& connection, size_t size);
  bool fits(const Connection& connection, size_t more) const {
    return connection.unsent() + more <= options_.max_output;
  }
  void mark_dirty(Connection& connection);
  void flush(Connection& connection);
  void sent_all(Connection& connection);
  void lost(Connection& connection, int error);
  void keep_unsent(Connection& connection);
  void resume(Connection& connection);
  void finish_turn();
  void send_dirty();
  void drop(Connection& connection);

  template <typename... Args>
  void refuse(Connection& connection, fmt::format_string<Args...> format, Args&&... args) {
    log_.warn("store: closed {}: {}", connection.peer.text(), fmt::format(format, std::forward<Args>(args)...));
    drop(connection);
  }

  net::EventLoop& loop_;
  Log& log_;
  ServerOptions options_;
  Fd listener_;
  uint16_t port_ = 0;
  net::EventLoop::TimerId accept_again_ = 0;
  bool received_any_ = false;   // in this turn
  int one_way_turns_ = 0;       // in a row: requests came, and none of them has an answer
  bool accept_failed_ = false;  // and has been said
  std::unique_ptr<Table> table_;
  std::vector<std::unique_ptr<Connection>> by_fd_;
  size_t open_ = 0;
  uint64_t next_serial_ = 1;
  std::vector<char> scratch_;
  net::EventLoop::HookId end_hook_;
  net::BatchSender sender_;
  std::vector<net::BatchSender::Item> to_send_;
  std::vector<Connection*> senders_;  // whose items these are
  std::string spare_output_;          // lent to the connection at work, so that replies need no allocation
  std::vector<Connection*> dirty_;    // have output since the last flush
  std::vector<std::unique_ptr<Connection>> closed_;  // freed when nobody can hold a reference any more
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

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

Connection* Server::Impl::add(Fd fd, const net::Address& peer) {
  if (options_.accept_peer && !options_.accept_peer(peer)) {
    log_.warn("store: refused {}: not a member of this job", peer.text());
    return nullptr;
  }
  auto index = static_cast<size_t>(fd.get());
  if (by_fd_.size() <= index) by_fd_.resize(index + 1);
  by_fd_[index] = std::make_unique<Connection>(std::move(fd), peer, next_serial_++);
  Connection* connection = by_fd_[index].get();
  ++open_;
  loop_.watch(connection->fd.get(), kReadable, [this, connection](uint32_t events) { on_event(*connection, events); });
  return connection;
}

void Server::Impl::adopt(Fd fd, const net::Address& peer, std::string_view first_bytes) {
  Connection* connection = add(std::move(fd), peer);
  if (connection == nullptr) return;
  received(*connection, first_bytes);
  finish_turn();
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
    received_any_ = true;
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
  if (connection.input.empty() && connection.input.capacity() > kKeepBuffer) connection.input = std::string();
}

// Executes the whole requests at the front of `bytes`; how many bytes that were.
size_t Server::Impl::execute_all(Connection& connection, std::string_view bytes) {
  if (connection.output.empty()) connection.output.swap(spare_output_);
  size_t used = execute_some(connection, bytes);
  if (!connection.open()) return used;
  if (connection.unsent() > 0)
    mark_dirty(connection);
  else
    sent_all(connection);
  return used;
}

size_t Server::Impl::execute_some(Connection& connection, std::string_view bytes) {
  size_t used = 0;
  while (true) {
    if (connection.unsent() > options_.pause_output_at) {
      flush(connection);
      if (!connection.open()) return used;
      if (connection.unsent() > options_.pause_output_at) {
        connection.paused = true;
        return used;
      }
    }
    Request request;
    Parser::Status status = connection.parser.next(bytes.substr(used), request);
    if (status == Parser::Status::kRequest) {
      if (execute(connection, request) == Outcome::kClosed) return used;
      used += connection.parser.consumed();
    } else if (status == Parser::Status::kNeedMore) {
      return used;
    } else if (status == Parser::Status::kAmbiguous) {
      resolve_ambiguity(connection, bytes.substr(used));
      if (connection.parser.dialect() == Dialect::kLegacy) return used;
    } else {
      flush(connection);  // what came before is answered
      refuse(connection, "{}", describe(connection.parser.fault()));
      return used;
    }
  }
}

// See wire.h. Code 7 as first request: a 1.13 client opens the connection that watches keys after the one it talks on,
// so without such a companion this is a 2.1 client that deletes a key; with one it is taken for WATCH_KEY, because
// hardly any client begins by deleting. Code 8 without a value behind the key: if none comes, it is DELETE_KEY of 1.13.
void Server::Impl::resolve_ambiguity(Connection& connection, std::string_view bytes) {
  if (op_of(Dialect::kTorch113, static_cast<uint8_t>(bytes[0])) == Op::kWatchKey) {
    connection.watcher = has_companion(connection);
    connection.parser.assume(connection.watcher ? Dialect::kTorch113 : Dialect::kTorch21);
    return;
  }
  if (connection.grace != 0) return;
  connection.grace = loop_.call_after(kAmbiguityGrace, [this, &connection] {  // cancelled when it is closed
    connection.grace = 0;
    if (connection.parser.dialect() != Dialect::kLegacy || connection.paused) return;
    connection.parser.assume(Dialect::kTorch113);
    received(connection, {});
  });
}

bool Server::Impl::has_companion(const Connection& connection) const {
  std::string host = connection.peer.host();
  for (const auto& other : by_fd_) {
    if (!other || other->serial >= connection.serial || other->watcher) continue;
    Dialect dialect = other->parser.dialect();
    if (dialect == Dialect::kModern || dialect == Dialect::kTorch21) continue;
    if (other->peer.host() == host) return true;
  }
  return false;
}

Server::Impl::Outcome Server::Impl::execute(Connection& connection, const Request& request) {
  std::string& out = connection.output;
  Table& table = *table_;
  table.next_request(connection, request);
  // Before 2.1 a client whose wait timed out could not say so: its next request does. An answer to the old one would
  // put all later ones out of step.
  if (connection.waiting() && connection.parser.dialect() != Dialect::kModern) table.cancel(connection);
  switch (request.op) {
    case Op::kValidate:
      break;
    case Op::kSet:
      table.set(request.key, request.value);
      break;
    case Op::kCompareSet:
      return reply_value(connection, table.compare_set(request.key, request.value, request.desired));
    case Op::kGet: {
      const std::string* value = table.get(request.key);
      return reply_value(connection, value != nullptr ? std::string_view(*value) : std::string_view());
    }
    case Op::kAdd: {
      auto sum = table.add(request.key, request.number);
      if (!sum) return not_a_number(connection, request);
      put_i64(out, *sum);
      break;
    }
    case Op::kCheck:
      put_u8(out, table.has_all(request.list) ? kReady : kNotReady);
      break;
    case Op::kWait:
      if (table.wait(connection, request.list)) put_u8(out, kStopWaiting);
      break;
    case Op::kNumKeys:
      put_i64(out, static_cast<int64_t>(table.size()));
      break;
    case Op::kWatchKey:
      connection.watcher = true;
      table.watch(connection, request.key);
      put_u8(out, kWatchRegistered);
      break;
    case Op::kDeleteKey:
      put_i64(out, table.remove(request.key) ? 1 : 0);
      break;
    case Op::kAppend:
      table.append(request.key, request.value);
      break;
    case Op::kMultiGet:
      return reply_values(connection, request.list);
    case Op::kMultiSet:
      for (auto item = request.list.begin(); item != request.list.end(); ++item) {
        std::string_view key = *item;
        table.set(key, *++item);
      }
      break;
    case Op::kCancelWait:
      table.cancel(connection);
      put_u8(out, kWaitCanceled);
      break;
    case Op::kPing:
      put_u32(out, static_cast<uint32_t>(request.number));
      break;
    case Op::kQueuePush:
      table.push(request.key, request.value);
      break;
    case Op::kQueuePop: {
      put_i64(out, static_cast<int64_t>(table.queue_size(request.key)));
      if (auto item = table.pop(request.key)) put_string(out, *item);
      break;
    }
    case Op::kQueueLen:
      put_i64(out, static_cast<int64_t>(table.queue_size(request.key)));
      break;
    case Op::kListKeys:
      return reply_keys(connection);
    case Op::kBarrier: {
      auto complete = table.barrier(connection, request.key, request.number);
      if (!complete) return not_a_number(connection, request);
      if (*complete) put_u8(out, kStopWaiting);
      break;
    }
  }
  return Outcome::kGoOn;
}

Server::Impl::Outcome Server::Impl::reply_value(Connection& connection, std::string_view value) {
  if (!fits(connection, value.size())) return too_much_output(connection, value.size());
  if (value.size() < kSendInPlace || connection.want_write) {
    put_string(connection.output, value);
    return Outcome::kGoOn;
  }
  put_u64(connection.output, value.size());
  std::array<iovec, 2> parts = {
      iovec{connection.output.data() + connection.sent, connection.unsent()},
      iovec{const_cast<char*>(value.data()), value.size()}};  // sendmsg() does not write to it
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  ssize_t size = ::sendmsg(connection.fd.get(), &message, MSG_NOSIGNAL);
  size_t done = size > 0 ? static_cast<size_t>(size) : 0;  // an error shows again when the rest is flushed
  size_t in_output = std::min(done, connection.unsent());
  connection.sent += in_output;
  connection.output.append(value.substr(done - in_output));
  return Outcome::kGoOn;
}

Server::Impl::Outcome Server::Impl::reply_values(Connection& connection, const StringList& keys) {
  size_t size = keys.size() * sizeof(uint64_t);
  for (std::string_view key : keys)
    if (const std::string* value = table_->get(key)) size += value->size();
  if (!fits(connection, size)) return too_much_output(connection, size);
  for (std::string_view key : keys) {
    const std::string* value = table_->get(key);
    put_string(connection.output, value != nullptr ? std::string_view(*value) : std::string_view());
  }
  return Outcome::kGoOn;
}

Server::Impl::Outcome Server::Impl::reply_keys(Connection& connection) {
  size_t size = sizeof(int64_t);
  table_->for_each_key([&](std::string_view key) { size += sizeof(uint64_t) + key.size(); });
  if (!fits(connection, size)) return too_much_output(connection, size);
  put_i64(connection.output, static_cast<int64_t>(table_->size()));
  table_->for_each_key([&](std::string_view key) { put_string(connection.output, key); });
  return Outcome::kGoOn;
}

Server::Impl::Outcome Server::Impl::not_a_number(Connection& connection, const Request& request) {
  flush(connection);
  refuse(connection, "{} on key '{}', whose value is no number", name(request.op), shown(request.key));
  return Outcome::kClosed;
}

Server::Impl::Outcome Server::Impl::too_much_output(Connection& connection, size_t size) {
  refuse(connection, "{} bytes of replies it has not read, the limit is {}", connection.unsent() + size,
         options_.max_output);
  return Outcome::kClosed;
}

void Server::Impl::released(Waiter& waiter) {
  auto& connection = static_cast<Connection&>(waiter);
  put_u8(connection.output, kStopWaiting);
  mark_dirty(connection);
}

void Server::Impl::changed(Waiter& watcher, Change change, std::string_view key, std::string_view old_value,
                           std::string_view new_value) {
  auto& connection = static_cast<Connection&>(watcher);
  put_u8(connection.output, static_cast<uint8_t>(change));
  put_string(connection.output, key);
  put_string(connection.output, old_value);
  put_string(connection.output, new_value);
  mark_dirty(connection);  // whether that is too much is judged later: the table is at work here
}

void Server::Impl::mark_dirty(Connection& connection) {
  if (std::exchange(connection.dirty, true)) return;
  dirty_.push_back(&connection);
}

void Server::Impl::flush(Connection& connection) {
  while (connection.open() && connection.unsent() > 0) {
    ssize_t size =
        ::send(connection.fd.get(), connection.output.data() + connection.sent, connection.unsent(), MSG_NOSIGNAL);
    if (size >= 0) {
      connection.sent += static_cast<size_t>(size);
    } else if (errno == EAGAIN) {
      return keep_unsent(connection);
    } else if (errno != EINTR) {
      return lost(connection, errno);
    }
  }
  if (connection.open()) sent_all(connection);
}

void Server::Impl::sent_all(Connection& connection) {
  connection.output.clear();
  connection.sent = 0;
  if (connection.output.capacity() > spare_output_.capacity()) connection.output.swap(spare_output_);
  if (connection.output.capacity() > kKeepBuffer) connection.output = std::string();
  if (spare_output_.capacity() > options_.pause_output_at * 2) spare_output_ = std::string();
  if (std::exchange(connection.want_write, false)) loop_.rearm(connection.fd.get(), kReadable);
}

void Server::Impl::lost(Connection& connection, int error) {
  log_.debug("store: lost {}: {}", connection.peer.text(), system_error(error, "send").message);
  drop(connection);
}

void Server::Impl::keep_unsent(Connection& connection) {
  if (connection.unsent() > options_.max_output) {
    too_much_output(connection, 0);
    return;
  }
  if (connection.sent > connection.output.size() / 2) {
    connection.output.erase(0, connection.sent);
    connection.sent = 0;
  }
  if (!std::exchange(connection.want_write, true)) loop_.rearm(connection.fd.get(), kReadable | EPOLLOUT);
}

// After output has gone: looks at what had to wait for that.
void Server::Impl::resume(Connection& connection) {
  if (!connection.open() || !connection.paused || connection.unsent() > options_.pause_output_at) return;
  connection.paused = false;
  received(connection, {});
  if (connection.open() && connection.more_to_read) read(connection, true);
}

// At the end of a wake-up: one send for all replies to a client, clients that were released included, and one system
// call for all of these.
void Server::Impl::finish_turn() {
  one_way_turns_ = std::exchange(received_any_, false) && dirty_.empty() ? one_way_turns_ + 1 : 0;
  if (one_way_turns_ >= kStreaming) ::sched_yield();
  while (!dirty_.empty()) send_dirty();  // again when a lost client's queue item goes to another
  closed_.clear();
}

void Server::Impl::send_dirty() {
  for (size_t i = 0; i < dirty_.size(); ++i) {  // grows when a closed client's queue item goes to another
    Connection& connection = *dirty_[i];
    if (connection.open() && connection.unsent() > options_.max_output) too_much_output(connection, 0);
  }
  to_send_.clear();
  senders_.clear();
  for (Connection* connection : dirty_) {
    connection->dirty = false;
    if (!connection->open() || connection->want_write) continue;
    senders_.push_back(connection);
    to_send_.push_back({connection->fd.get(), connection->output.data() + connection->sent, connection->unsent()});
  }
  dirty_.clear();
  sender_.send(to_send_);
  for (size_t i = 0; i < senders_.size(); ++i) {
    Connection& connection = *senders_[i];
    ptrdiff_t result = to_send_[i].result;
    if (result >= 0) connection.sent += static_cast<size_t>(result);
    if (result < 0 && result != -EAGAIN)
      lost(connection, static_cast<int>(-result));
    else if (connection.unsent() > 0)
      flush(connection);
    else
      sent_all(connection);
  }
}

void Server::Impl::drop(Connection& connection) {
  if (!connection.open()) return;
  if (connection.grace != 0) loop_.cancel(connection.grace);
  int fd = connection.fd.get();
  loop_.unwatch(fd);
  connection.fd.reset();
  --open_;
  table_->forget(connection);
  closed_.push_back(std::move(by_fd_[static_cast<size_t>(fd)]));
}

void Server::Impl::close() {
  if (listener_) loop_.unwatch(listener_.get());
  if (accept_again_ != 0) loop_.cancel(std::exchange(accept_again_, 0));
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
