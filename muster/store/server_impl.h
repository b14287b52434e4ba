#pragma once

#include <sys/socket.h>

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "muster/store/connection.h"
#include "muster/store/server.h"

namespace muster::store {

// The implementation of server.h, which is divided into three files. Only they use this header.
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
  static constexpr size_t kReadSize = 64 << 10;

  // server.cpp: connections come, bring bytes and go.
  void accept_some();
  void pause_accepting(const Error& error);
  Admission admission(int fd, const net::Address& peer) const;
  Connection* add(Fd fd, const net::Address& peer);
  Connection* find(int fd, uint64_t serial);
  void on_event(Connection& connection, uint32_t events);
  void read(Connection& connection, bool hang_up);
  void received(Connection& connection, std::string_view bytes);
  void drop(Connection& connection);
  template <typename... Args>
  void refuse(Connection& connection, fmt::format_string<Args...> format, Args&&... args) {
    warn_of(fmt::format("closed {}: {}", connection.peer.text(), fmt::format(format, std::forward<Args>(args)...)));
    drop(connection);
  }
  void warn_of(const std::string& stranger);

  // server_requests.cpp: bytes become requests, requests become replies.
  size_t execute_all(Connection& connection, std::string_view bytes);
  size_t execute_some(Connection& connection, std::string_view bytes);
  void resolve_ambiguity(Connection& connection, std::string_view bytes);
  bool has_companion(const Connection& connection) const;
  void watch_promises();
  Outcome execute(Connection& connection, const Request& request);
  Outcome reply_value(Connection& connection, std::string_view value);
  Outcome reply_values(Connection& connection, const StringList& keys);
  Outcome reply_keys(Connection& connection);
  Outcome not_a_number(Connection& connection, const Request& request);
  bool fits(const Connection& connection, size_t more) const {
    return connection.unsent() + more <= options_.max_output;
  }

  // server_output.cpp: replies leave, at the end of the turn or when the client takes more.
  void mark_dirty(Connection& connection) {
    if (!std::exchange(connection.dirty, true)) dirty_.push_back(&connection);
  }
  void flush(Connection& connection);
  void sent_all(Connection& connection);
  void lost(Connection& connection, int error);
  void keep_unsent(Connection& connection);
  void want_write(Connection& connection, bool on);
  Outcome too_much_output(Connection& connection, size_t size);
  void resume(Connection& connection);
  void finish_turn();
  void send_dirty();

  net::EventLoop& loop_;
  Log& log_;
  ServerOptions options_;
  Fd listener_;
  uint16_t port_ = 0;
  net::EventLoop::TimerId accept_again_ = 0;
  net::EventLoop::TimerId promise_timer_ = 0;
  bool accept_failed_ = false;  // and has been logged
  size_t warnings_ = 0;         // recent warnings about strangers
  size_t unsaid_ = 0;           // strangers since the last warning
  TimePoint warned_{};
  std::unique_ptr<Table> table_;
  std::vector<std::unique_ptr<Connection>> by_fd_;
  size_t open_ = 0;
  std::unordered_map<std::string, size_t> open_from_;  // by address; entries with 0 are removed
  uint64_t next_serial_ = 1;
  std::vector<char> scratch_;  // shared by all connections
  net::EventLoop::HookId end_hook_;
  std::string spare_output_;          // used by the current connection, so that replies need no allocation
  std::vector<Connection*> dirty_;    // with output since the last flush
  std::vector<Connection*> sending_;  // kept for its memory; empty except in send_dirty()
  std::vector<std::unique_ptr<Connection>> closed_;  // freed when no reference to it can exist
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::store
