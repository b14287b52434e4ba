#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/store/server.h"

namespace muster::store {

// A server on a loop and thread of its own, at a port of its own.
class ServerThread {
 public:
  explicit ServerThread(ServerOptions options = {}) : stop_(::eventfd(0, EFD_CLOEXEC)) {
    server_ = std::make_unique<Server>(loop_, log_, std::move(options));
    MUSTER_CHECK(server_->listen(0, true).ok());
    port_ = server_->port();
    loop_.watch(stop_.get(), EPOLLIN, [this](uint32_t) { loop_.stop(); });
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~ServerThread() { stop(); }

  uint16_t port() const { return port_; }

  // Ends the server; connections are closed.
  void stop() {
    if (!thread_.joinable()) return;
    uint64_t one = 1;
    MUSTER_CHECK(::write(stop_.get(), &one, sizeof one) == sizeof one);
    thread_.join();
    loop_.unwatch(stop_.get());
    server_.reset();
  }

  // What it has logged so far.
  std::vector<std::string> lines() {
    std::scoped_lock lock(mutex_);
    return lines_;
  }

 private:
  void add_line(std::string_view line) {
    std::scoped_lock lock(mutex_);
    lines_.emplace_back(line);
  }

  net::EventLoop loop_;
  Fd stop_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
  Log log_{[this](LogLevel, std::string_view line) { add_line(line); }};
  std::unique_ptr<Server> server_;
  uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace muster::store
