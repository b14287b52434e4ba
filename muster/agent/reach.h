#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/fd.h"
#include "muster/net/event_loop.h"

namespace muster::agent {

// Finds the first of several numeric addresses whose port this node can connect to, in their order, each for two
// seconds at most. Never blocks.
class Reach {
 public:
  // The address, or what became of each: "10.0.0.1:4711: connection refused".
  using Done = std::function<void(Result<std::string> address)>;
  Reach(net::EventLoop& loop, std::vector<std::string> addresses, uint16_t port, Done done);
  ~Reach();
  Reach(const Reach&) = delete;
  Reach& operator=(const Reach&) = delete;

 private:
  void try_next();
  void connected();
  void failed(const std::string& why);
  void stop();

  net::EventLoop& loop_;
  std::vector<std::string> addresses_;
  uint16_t port_;
  Done done_;
  size_t current_ = 0;
  Fd socket_;
  net::EventLoop::TimerId timer_ = 0;
  std::string failures_;
};

}  // namespace muster::agent
