// A load generator for any server of PyTorch's TCPStore protocol.
//
//   store_load_bench pipeline PORT CONNECTIONS WINDOW SECONDS get|add|set
//       each connection keeps WINDOW requests under way; prints operations a second
//   store_load_bench idle PORT CONNECTIONS
//       opens that many connections, each validated and pinged, prints how many, holds them until stdin ends
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "muster/net/socket.h"
#include "muster/store/wire.h"

namespace {

using namespace muster;
using namespace muster::store;

constexpr auto kPatience = std::chrono::seconds(60);

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "store_load_bench: {}\n", what);
  std::exit(1);
}

Fd connect(uint16_t port) {
  auto fd = net::connect_tcp("127.0.0.1", port, Deadline::in(kPatience));
  if (!fd) fail(fd.error().text());
  if (!set_nonblocking(fd->get(), false)) fail("cannot make a socket blocking");
  return *std::move(fd);
}

void exchange(int fd, std::string_view request, size_t reply) {
  if (auto written = write_all(fd, request.data(), request.size()); !written) fail(written.error().text());
  std::string answer(reply, '\0');
  if (reply > 0 && ::recv(fd, answer.data(), reply, MSG_WAITALL) != static_cast<ssize_t>(reply)) fail("no answer");
}

std::string opening() {
  std::string bytes;
  put_validate(bytes);
  put_code(bytes, Dialect::kModern, Op::kPing);
  put_u32(bytes, 1);
  return bytes;
}

// A window of requests: what is sent again and again, and how many bytes come back for it.
struct Window {
  std::string requests;
  size_t reply = 0;
};

Window make_window(std::string_view op, int number, int size) {
  std::string key = fmt::format("/load/{}/{}", op == "add" ? "number" : "value", number);
  std::string value(100, 'x');
  Window window;
  auto put = [&](Op code) {
    put_code(window.requests, Dialect::kModern, code);
    put_string(window.requests, key);
  };
  for (int i = 0; i < size; ++i) {
    if (op == "add") {
      put(Op::kAdd);
      put_i64(window.requests, 1);
      window.reply += sizeof(int64_t);
    } else if (op == "get") {
      put(Op::kGet);
      window.reply += sizeof(uint64_t) + value.size();
    } else if (op == "set") {
      put(Op::kSet);
      put_string(window.requests, value);
    } else {
      fail(fmt::format("'{}' is none of get, set, add", op));
    }
  }
  if (op == "set") {  // has no answer of its own
    put_code(window.requests, Dialect::kModern, Op::kNumKeys);
    window.reply += sizeof(int64_t);
  }
  return window;
}

struct Connection {
  Fd fd;
  Window window;
  size_t sent = 0;
  size_t received = 0;
};

// Sends what is left of the window, as far as the socket takes it.
void send_more(Connection& connection) {
  const std::string& requests = connection.window.requests;
  while (connection.sent < requests.size()) {
    ssize_t size =
        ::send(connection.fd.get(), requests.data() + connection.sent, requests.size() - connection.sent, MSG_NOSIGNAL);
    if (size < 0 && errno == EAGAIN) return;
    if (size < 0) fail("send failed");
    connection.sent += static_cast<size_t>(size);
  }
}

// Windows that were answered whole.
int receive_some(Connection& connection, std::vector<char>& buffer) {
  ssize_t size = ::recv(connection.fd.get(), buffer.data(), buffer.size(), 0);
  if (size < 0 && errno == EAGAIN) return 0;
  if (size <= 0) fail("the server closed a connection");
  connection.received += static_cast<size_t>(size);
  if (connection.received < connection.window.reply) return 0;
  connection.received -= connection.window.reply;
  connection.sent = 0;
  return 1;
}

int pipeline(uint16_t port, int count, int window, double seconds, std::string_view op) {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  std::vector<Connection> connections(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    Connection& connection = connections[static_cast<size_t>(i)];
    connection.fd = connect(port);
    exchange(connection.fd.get(), opening(), sizeof(uint32_t));
    if (op == "get") exchange(connection.fd.get(), make_window("set", i, 1).requests, sizeof(int64_t));
    connection.window = make_window(op, i, window);
    if (!set_nonblocking(connection.fd.get(), true)) fail("cannot make a socket non-blocking");
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLET;
    event.data.u32 = static_cast<uint32_t>(i);
    ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, connection.fd.get(), &event);
  }
  std::vector<char> buffer(256 << 10);
  std::vector<epoll_event> ready(256);
  uint64_t windows = 0;
  auto begin = Clock::now();
  Deadline end = Deadline::in(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
  while (!end.passed()) {
    int events = ::epoll_wait(epoll.get(), ready.data(), static_cast<int>(ready.size()), end.poll_timeout());
    for (int i = 0; i < events; ++i) {
      Connection& connection = connections[ready[static_cast<size_t>(i)].data.u32];
      send_more(connection);
      while (int answered = receive_some(connection, buffer)) {
        windows += static_cast<uint64_t>(answered);
        send_more(connection);
      }
    }
  }
  double took = std::chrono::duration<double>(Clock::now() - begin).count();
  fmt::print("{:.0f}\n", static_cast<double>(windows) * window / took);
  return 0;
}

int idle(uint16_t port, int count) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  std::vector<Fd> connections;
  for (int i = 0; i < count; ++i) {
    connections.push_back(connect(port));
    exchange(connections.back().get(), opening(), sizeof(uint32_t));
  }
  fmt::print("{}\n", connections.size());
  std::fflush(stdout);
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 6 && words[0] == "pipeline")
    return pipeline(static_cast<uint16_t>(std::stoi(words[1])), std::stoi(words[2]), std::stoi(words[3]),
                    std::stod(words[4]), words[5]);
  if (words.size() == 3 && words[0] == "idle")
    return idle(static_cast<uint16_t>(std::stoi(words[1])), std::stoi(words[2]));
  fail("pipeline PORT CONNECTIONS WINDOW SECONDS get|add|set, or idle PORT CONNECTIONS");
}
