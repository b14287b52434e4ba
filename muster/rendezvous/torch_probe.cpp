#include "muster/rendezvous/torch_probe.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "muster/net/socket.h"

namespace muster::rendezvous {
namespace {

constexpr size_t kNonceSize = 4;
constexpr std::string_view kNonce = kTorchProbe.substr(kTorchProbe.size() - kNonceSize);

}  // namespace

Error speaks_torchrun(std::string_view who) {
  return {ErrorKind::kPeer, fmt::format("{} speaks torchrun's protocol (that of PyTorch's store), not muster's", who),
          "start muster there too: muster torchrun takes the same options"};
}

TorchProbe::TorchProbe(net::EventLoop& loop, const net::Address& address, std::function<void()> found)
    : loop_(loop), found_(std::move(found)) {
  if (net::start_connect(address, socket_) == 0)
    loop_.watch(socket_.get(), EPOLLOUT, [this](uint32_t) { connected(); });
}

TorchProbe::~TorchProbe() {
  if (socket_) loop_.unwatch(socket_.get());
}

// If the connection has failed nothing is sent, and nothing comes.
void TorchProbe::connected() {
  [[maybe_unused]] ssize_t ignored = ::send(socket_.get(), kTorchProbe.data(), kTorchProbe.size(), MSG_NOSIGNAL);
  loop_.unwatch(socket_.get());
  loop_.watch(socket_.get(), EPOLLIN, [this](uint32_t) { answered(); });
}

void TorchProbe::answered() {
  std::array<char, kNonce.size()> bytes;
  const ssize_t size = ::recv(socket_.get(), bytes.data(), bytes.size() - answer_.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size > 0) answer_.append(bytes.data(), static_cast<size_t>(size));
  if (size > 0 && answer_.size() < kNonce.size()) return;
  loop_.unwatch(socket_.get());
  socket_.reset();
  if (answer_ != kNonce) return;
  auto found = std::move(found_);
  found();
}

}  // namespace muster::rendezvous
