#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/fd.h"
#include "muster/net/event_loop.h"

namespace muster::agent {

// Finds the first of several numeric addresses whose port this node can connect to, in their order. Those that do not
// answer are tried again, five times in all: packets get lost, and a cable may be out for a moment. Never blocks.
class Reach {
 public:
  // The address, or what became of each: "10.0.0.1 port 4711: Connection refused".
  using Done = std::function<void(Result<std::string> address)>;
  // `each`: how long a try may take.
  Reach(net::EventLoop& loop, std::vector<std::string> addresses, uint16_t port, Done done,
        Duration each = std::chrono::seconds(2));
  ~Reach();
  Reach(const Reach&) = delete;
  Reach& operator=(const Reach&) = delete;

 private:
  void try_next();
  void connected();
  void no_answer();
  void failed(const std::string& why);
  void go_on();
  void all_tried();
  void stop();

  net::EventLoop& loop_;
  std::vector<std::string> addresses_;
  uint16_t port_;
  Done done_;
  Duration each_;
  size_t current_ = 0;
  Fd socket_;
  net::EventLoop::TimerId timer_ = 0;
  int passes_ = 0;                   // that are over
  std::vector<std::string> silent_;  // those of this one that did not answer
  std::string failures_;
};

// Whether another machine could connect to what this one's name resolves to. Asks the resolver, for seconds at most.
bool own_name_is_reachable_from_elsewhere();

}  // namespace muster::agent
