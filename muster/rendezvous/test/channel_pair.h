#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/net/event_loop.h"
#include "muster/rendezvous/channel.h"

namespace muster::rendezvous::test {

inline std::pair<Fd, Fd> socket_pair() {
  int pair[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
  return {Fd(pair[0]), Fd(pair[1])};
}

// Runs the loop until the condition holds at the end of a turn; false when it does not in ten seconds.
template <typename Condition>
bool run_until(net::EventLoop& loop, Condition condition) {
  auto hook = loop.add_end_hook([&] {
    if (condition()) loop.stop();
  });
  bool held = condition() || loop.run_until(Deadline::in(std::chrono::seconds(10)));
  loop.remove_end_hook(hook);
  return held;
}

// A channel and what its handlers were told.
struct End {
  std::unique_ptr<Channel> channel;
  std::vector<std::string> messages;
  std::vector<Error> closed;
  int opened = 0;
  int drained = 0;

  Channel::Handlers handlers() {
    Channel::Handlers handlers;
    handlers.opened = [this] { ++opened; };
    handlers.received = [this](std::string_view message) { messages.emplace_back(message); };
    handlers.closed = [this](const Error& why) { closed.push_back(why); };
    handlers.drained = [this] { ++drained; };
    return handlers;
  }
  void serve(net::EventLoop& loop, Fd socket, const Channel::Options& options, std::string_view first_bytes = {}) {
    channel = Channel::server(loop, std::move(socket), {}, options, handlers(), first_bytes);
  }
  void call(net::EventLoop& loop, Fd socket, const Channel::Options& options) {
    channel = Channel::client(loop, std::move(socket), {}, options, handlers());
  }
  std::string why() const { return closed.empty() ? "" : closed.front().text(); }
};

// Both ends of a connection.
struct Pair {
  net::EventLoop loop;
  End client, server;

  explicit Pair(const Channel::Options& client_options = {}, const Channel::Options& server_options = {}) {
    auto [one, other] = socket_pair();
    server.serve(loop, std::move(other), server_options);
    client.call(loop, std::move(one), client_options);
  }
  bool open() {
    return run_until(loop, [&] { return client.opened == 1 && server.opened == 1; });
  }
  // Everything that can happen now.
  void settle() {
    for (int turn = 0; turn < 20; ++turn) loop.run_until(Deadline::at(TimePoint::min()));
  }
};

// Client and server that talk through the test, which sees, cuts, changes and delays what they say.
struct Relay {
  net::EventLoop loop;
  End client, server;
  std::string up, down;  // all that the client has sent, all that the server has

  explicit Relay(const Channel::Options& client_options = {}, const Channel::Options& server_options = {}) {
    auto [one, client_side] = socket_pair();
    auto [other, server_side] = socket_pair();
    server.serve(loop, std::move(other), server_options);
    client.call(loop, std::move(one), client_options);
    client_side_ = std::move(client_side);
    server_side_ = std::move(server_side);
  }

  size_t up_limit = SIZE_MAX, down_limit = SIZE_MAX;  // bytes let through; then that side's peer is closed
  size_t flip_up = SIZE_MAX, flip_down = SIZE_MAX;    // the byte that is changed
  size_t piece = SIZE_MAX;                            // as many at a time

  // Until nothing moves any more.
  void run() {
    for (int quiet = 0; quiet < 3;) {
      loop.run_until(Deadline::at(TimePoint::min()));
      bool moved = pass(client_side_, server_side_, up, up_limit, flip_up);
      moved = pass(server_side_, client_side_, down, down_limit, flip_down) || moved;
      quiet = moved ? 0 : quiet + 1;
    }
  }
  void close() {
    client_side_.reset();
    server_side_.reset();
    run();
  }

 private:
  bool pass(Fd& from, Fd& to, std::string& passed, size_t limit, size_t flip) {
    if (!from || !to) return false;
    if (passed.size() >= limit) {
      to.reset();
      return true;
    }
    char bytes[4096];
    size_t most = std::min({sizeof bytes, piece, limit - passed.size()});
    ssize_t size = ::recv(from.get(), bytes, most, 0);
    if (size == 0) to.reset();
    if (size <= 0) return size == 0;
    if (flip >= passed.size() && flip < passed.size() + static_cast<size_t>(size)) bytes[flip - passed.size()] ^= 0x41;
    passed.append(bytes, static_cast<size_t>(size));
    if (::send(to.get(), bytes, static_cast<size_t>(size), MSG_NOSIGNAL) != size) to.reset();  // it has left
    return true;
  }

  Fd client_side_, server_side_;
};

}  // namespace muster::rendezvous::test
