#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <string>
#include <utility>

#include "muster/base/fd.h"
#include "muster/net/address.h"
#include "muster/net/event_loop.h"
#include "muster/store/table.h"
#include "muster/store/wire.h"

namespace muster::store {

// One client of a server. Plain state that only Server::Impl uses.
struct Connection : Waiter {
  static constexpr uint32_t kReadable = EPOLLIN | EPOLLRDHUP | EPOLLET;
  static constexpr size_t kKeepBuffer = 1 << 10;  // an idle connection keeps no more than this

  Connection(Fd fd, const net::Address& peer, uint64_t serial, uint64_t max_request)
      : fd(std::move(fd)), peer(peer), serial(serial), parser(Dialect::kUnknown, max_request) {}

  bool open() const { return static_cast<bool>(fd); }
  size_t unsent() const { return output.size() - sent; }

  Fd fd;
  net::Address peer;
  uint64_t serial;  // in order of arrival
  Parser parser;
  std::string input;   // an incomplete request, or requests that wait until `output` is gone
  std::string output;  // replies; those from `sent` on are not sent yet
  size_t sent = 0;
  net::EventLoop::TimerId grace = 0;
  bool watcher = false;       // a 1.13 client's second connection
  bool paused = false;        // too much output: do not read input
  bool more_to_read = false;  // the socket may have more bytes
  bool want_write = false;    // EPOLLOUT is armed
  bool dirty = false;         // in Server::Impl::dirty_
};

}  // namespace muster::store
