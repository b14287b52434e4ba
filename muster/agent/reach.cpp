#include "muster/agent/reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "muster/net/interfaces.h"
#include "muster/net/resolve.h"
#include "muster/net/socket.h"

namespace muster::agent {
namespace {

constexpr int kPasses = 5;

}  // namespace

Reach::Reach(net::EventLoop& loop, std::vector<std::string> addresses, uint16_t port, Done done, Duration each)
    : loop_(loop), addresses_(std::move(addresses)), port_(port), done_(std::move(done)), each_(each) {
  timer_ = loop_.call_after(Duration(0), [this] { try_next(); });
}

Reach::~Reach() { stop(); }

void Reach::stop() {
  loop_.cancel(timer_);
  if (socket_) loop_.unwatch(socket_.get());
  socket_.reset();
}

void Reach::try_next() {
  if (current_ == addresses_.size()) return all_tried();
  auto address = net::parse_address(addresses_[current_], port_);
  if (!address) return failed(address.error().message);
  if (int error = net::start_connect(*address, socket_)) return failed(::strerror(error));
  timer_ = loop_.call_after(each_, [this] { no_answer(); });
  loop_.watch(socket_.get(), EPOLLOUT, [this](uint32_t) { connected(); });
}

void Reach::connected() {
  if (int error = net::connect_error(socket_.get())) return failed(::strerror(error));
  stop();
  Done done = std::move(done_);  // it may destroy this object
  done(addresses_[current_]);
}

void Reach::no_answer() {
  silent_.push_back(addresses_[current_]);
  if (passes_ + 1 == kPasses) return failed("no answer");
  go_on();
}

void Reach::failed(const std::string& why) {
  failures_ += fmt::format("{}{} port {}: {}", failures_.empty() ? "" : "; ", addresses_[current_], port_, why);
  go_on();
}

void Reach::go_on() {
  stop();
  ++current_;
  timer_ = loop_.call_after(Duration(0), [this] { try_next(); });
}

void Reach::all_tried() {
  if (silent_.empty() || ++passes_ == kPasses) {
    Done done = std::move(done_);  // it may destroy this object
    return done(Error{ErrorKind::kPeer, failures_.empty() ? "its address is not known" : failures_, {}});
  }
  addresses_ = std::exchange(silent_, {});
  current_ = 0;
  try_next();
}

bool own_name_is_reachable_from_elsewhere() {
  auto addresses = net::resolve(net::hostname(), 0, Deadline::in(net::kOwnNameTime));
  return addresses && std::ranges::any_of(*addresses, [](const net::Address& address) {
           return !address.is_loopback() && net::is_own_address(address);
         });
}

}  // namespace muster::agent
