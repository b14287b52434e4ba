#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/fd.h"
#include "muster/net/address.h"
#include "muster/net/event_loop.h"

namespace muster::rendezvous {

// The first query of every client of PyTorch's store since 2.2 (VALIDATE and its magic number), torchrun's agents
// included.
inline constexpr std::string_view kTorchHello("\0\xCE\xF7\x85\x3C", 5);

// What TorchProbe sends: that, a PING, and four bytes that come back.
inline constexpr std::string_view kTorchProbe("\0\xCE\xF7\x85\x3C\x0Dmust", 10);

// "10.0.0.1 speaks torchrun's protocol …", and what to do.
Error speaks_torchrun(std::string_view who);

// Asks a server that has not answered muster's hello whether it is PyTorch's store: that says nothing to bytes that it
// does not know, and answers a ping. Lives on one loop and its thread, never blocks.
class TorchProbe {
 public:
  // `found` is called from the loop, if the server answers as the store does, and may destroy the probe.
  TorchProbe(net::EventLoop& loop, const net::Address& address, std::function<void()> found);
  ~TorchProbe();  // gives up
  TorchProbe(const TorchProbe&) = delete;
  TorchProbe& operator=(const TorchProbe&) = delete;

 private:
  void connected();
  void answered();

  net::EventLoop& loop_;
  std::function<void()> found_;
  Fd socket_;
  std::string answer_;
};

}  // namespace muster::rendezvous
