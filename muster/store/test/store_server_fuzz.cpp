#include <sys/socket.h>

#include <array>
#include <string_view>

#include "muster/net/address.h"
#include "muster/store/server.h"

// A server and four clients that send what they like, in pieces, and leave when they like. The input is a list of
// steps: a client's number, how much it sends, and those bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  net::EventLoop loop;
  Log log([](LogLevel, std::string_view) {});
  store::Server server(loop, log,
                       {.pause_output_at = 256,
                        .max_output = 64 << 10,
                        .max_request = size_t{4} << size % 16,
                        .max_connections_per_peer = 1 + size % 4});
  std::array<Fd, 4> clients;
  std::string_view input(reinterpret_cast<const char*>(data), size);
  while (input.size() >= 2) {
    auto step = static_cast<uint8_t>(input[0]);
    auto length = static_cast<uint8_t>(input[1]);
    input.remove_prefix(2);
    std::string_view bytes = input.substr(0, length);
    input.remove_prefix(bytes.size());
    Fd& client = clients[step % clients.size()];
    bool leaves = step >= 0xF0;
    bool reads = step < 0x80;
    if (leaves) {
      client.reset();
    } else {
      if (!client) {
        int pair[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) return 0;
        client.reset(pair[0]);
        server.adopt(Fd(pair[1]), net::Address{}, {});
      }
      if (::send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0 && errno != EAGAIN) client.reset();
    }
    loop.run_until(Deadline::at(TimePoint::min()));
    std::array<char, 4096> answers;
    while (client && reads && ::recv(client.get(), answers.data(), answers.size(), 0) > 0) {
    }
  }
  return 0;
}
