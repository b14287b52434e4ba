#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "muster/rendezvous/acceptor.h"
#include "muster/rendezvous/channel_impl.h"

namespace {

using namespace muster;
using namespace muster::rendezvous;

void turn(net::EventLoop& loop) { loop.run_until(Deadline::at(TimePoint::min())); }

void send_all(const Fd& socket, std::string_view bytes) {
  [[maybe_unused]] ssize_t size = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Takes what the server has said.
std::string receive(const Fd& socket) {
  std::array<char, 4096> bytes;
  ssize_t size = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  return {bytes.data(), size > 0 ? static_cast<size_t>(size) : 0};
}

}  // namespace

// Bytes for a server, in pieces. The first byte of the input says how far the client gets before it goes wrong: it
// knows nothing, has sent a good hello, has proven the token but not named its job, or is in. The rest is a list of lengths and bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view input(reinterpret_cast<const char*>(data), size);
  const int stage = input[0] & 7;
  input.remove_prefix(1);
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) return 0;
  Fd client(pair[0]);

  static const job::Token token = job::Token::derive("fuzz", "fuzz");
  net::EventLoop loop;
  Channel::Options options;
  options.token = token;
  options.max_message = 64 << 10;
  options.sealed_token = std::make_shared<std::string>("sealed");
  bool opened = false;
  size_t received = 0;
  Channel::Handlers handlers;
  handlers.opened = [&] { opened = true; };
  handlers.received = [&](std::string_view) { ++received; };
  ChannelImpl server(loop, Fd(pair[1]), {}, options, std::move(handlers), ChannelImpl::Side::kServer,
                     stage == 3 ? ChannelImpl::Other([](Fd, std::string_view) {}) : ChannelImpl::Other());

  Handshake handshake(token, Purpose::kControl);
  SecretStream out;
  if (stage == 1 || stage == 2 || stage == 4) {
    send_all(client, handshake.call());
    turn(loop);
    std::string proof;
    if (handshake.answered(receive(client), out, proof) != Verdict::kGood) std::abort();
    if (stage == 2) out.seal({}, proof);
    if (stage != 1) send_all(client, proof);
    turn(loop);
    if (opened != (stage == 2)) std::abort();
  }
  while (!input.empty()) {
    auto length = static_cast<uint8_t>(input[0]);
    input.remove_prefix(1);
    std::string_view piece = input.substr(0, length);
    input.remove_prefix(piece.size());
    send_all(client, piece);
    turn(loop);
    receive(client);
  }
  // Nobody gets in, and nothing is believed, without the token.
  if (received != 0 || (opened && stage != 2)) std::abort();
  return 0;
}
