#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>

#include "muster/store/server_impl.h"

namespace muster::store {
namespace {

constexpr size_t kSendInPlace = 16 << 10;  // larger values are sent from where they are stored
constexpr size_t kShownKey = 100;
// A client pops within a round trip of being told that there is an item. After one to two of these it will not.
constexpr auto kPromiseLasts = std::chrono::seconds(1);
// How long the rest of a 2.1 client's APPEND may be behind its key before the message is taken for a 1.13 client's
// DELETE_KEY. Costs such a client this much once; see wire.h.
constexpr auto kAmbiguityGrace = std::chrono::milliseconds(20);

std::string shown(std::string_view key) {
  std::string text;
  for (char c : key.substr(0, kShownKey)) text += c >= ' ' && c <= '~' ? c : '?';
  if (key.size() > kShownKey) text += "…";
  return text;
}

}  // namespace

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

void Server::Impl::watch_promises() {
  if (promise_timer_ != 0 || !table_->has_promises()) return;
  promise_timer_ = loop_.call_after(kPromiseLasts, [this] {
    promise_timer_ = 0;
    table_->expire_promises();
    watch_promises();
  });
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
      watch_promises();
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
      watch_promises();
      break;
    case Op::kQueuePop: {
      size_t size = table.queue_size(request.key);
      auto item = table.pop(request.key);
      put_i64(out, item ? static_cast<int64_t>(size) : 0);
      if (item) put_string(out, *item);
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
  refuse(connection, "{} on key '{}', whose value is not a number", name(request.op), shown(request.key));
  return Outcome::kClosed;
}

}  // namespace muster::store
