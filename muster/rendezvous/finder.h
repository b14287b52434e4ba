#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/net/event_loop.h"
#include "muster/net/resolve.h"
#include "muster/rendezvous/channel.h"

namespace muster::rendezvous {

// A Connector to endpoints ("n1:29400", "10.0.0.1:4711") whose hosts may be names. Names are looked up without
// blocking, and again while nobody is reached: in a cloud a name appears, or gets another address, after whoever has it
// has started.
class Finder {
 public:
  // As of Connector::start(); may destroy the finder. A name that nobody knows until the deadline is in its kTimeout.
  using Done = std::function<void(Result<std::unique_ptr<Channel>>)>;

  // Who is asked, and how long after an answer again. A name that has an address is asked for more seldom: mostly
  // whoever has it is only late.
  struct Questions {
    net::Resolver resolver = net::ask_system;
    Duration unknown = std::chrono::seconds(1);
    Duration known = std::chrono::seconds(5);
  };

  Finder(net::EventLoop& loop, const std::vector<std::string>& endpoints, const Channel::Options& options,
         Duration each, Deadline deadline, Done done, Questions questions);
  ~Finder();  // gives up
  Finder(const Finder&) = delete;
  Finder& operator=(const Finder&) = delete;

  // "10.0.0.1:29400: connection refused", "cannot resolve 'n1': Name or service not known"; empty: none so far.
  std::string telling_failure() const { return connector_->telling_failure(); }

 private:
  // One host of the endpoints.
  struct Host {
    std::string name;
    std::vector<uint16_t> ports;
    std::vector<net::Address> addresses;  // the last that were found
    std::string failure;                  // of the last look-up
    std::unique_ptr<net::Lookup> lookup;  // while it lasts
    net::EventLoop::TimerId again = 0;
  };

  void add(const std::string& endpoint);
  void look_up(Host& host);
  void unwatch(const net::Lookup& lookup);
  void answered(Host& host);
  void aim();
  void stop_asking();

  net::EventLoop& loop_;
  Questions questions_;
  std::vector<Host> hosts_;  // does not change any more
  std::vector<Connector::Hindrance> malformed_;
  std::unique_ptr<Connector> connector_;
};

}  // namespace muster::rendezvous
