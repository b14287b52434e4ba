#include <sys/socket.h>

#include <cerrno>

#include "muster/store/server_impl.h"

namespace muster::store {
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
  if (connection.output.capacity() > Connection::kKeepBuffer) connection.output = std::string();
  if (spare_output_.capacity() > options_.pause_output_at * 2) spare_output_ = std::string();
  if (connection.want_write) want_write(connection, false);
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
  if (!connection.want_write) want_write(connection, true);
}

void Server::Impl::want_write(Connection& connection, bool on) {
  connection.want_write = on;
  loop_.rearm(connection.fd.get(), on ? Connection::kReadable | EPOLLOUT : Connection::kReadable);
}

Server::Impl::Outcome Server::Impl::too_much_output(Connection& connection, size_t size) {
  refuse(connection, "{} bytes of replies it has not read, the limit is {}", connection.unsent() + size,
         options_.max_output);
  return Outcome::kClosed;
}

// After output has gone: looks at what had to wait for that.
void Server::Impl::resume(Connection& connection) {
  if (!connection.open() || !connection.paused || connection.unsent() > options_.pause_output_at) return;
  connection.paused = false;
  received(connection, {});
  if (connection.open() && connection.more_to_read) read(connection, true);
}

// At the end of a wake-up: one send for all replies to a client, clients that were released included.
void Server::Impl::finish_turn() {
  while (!dirty_.empty()) send_dirty();  // again when a lost client's queue item goes to another
  closed_.clear();
}

void Server::Impl::send_dirty() {
  for (size_t i = 0; i < dirty_.size(); ++i) {  // grows when a closed client's queue item goes to another
    Connection& connection = *dirty_[i];
    if (connection.open() && connection.unsent() > options_.max_output) too_much_output(connection, 0);
  }
  sending_.swap(dirty_);
  for (Connection* connection : sending_) {
    connection->dirty = false;
    if (connection->open() && !connection->want_write) flush(*connection);
  }
  sending_.clear();
}

}  // namespace muster::store
