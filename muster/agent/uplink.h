#pragma once

#include <functional>
#include <memory>
#include <string>

#include "muster/base/fd.h"
#include "muster/net/address.h"
#include "muster/net/event_loop.h"
#include "muster/rendezvous/channel.h"
#include "muster/rendezvous/protocol.h"

namespace muster::agent {

// An agent's stdout and stderr on their way to the launcher: two pipes that the console writes to, and a connection of
// its own that takes whole lines from them. While the launcher does not read, or there is no connection yet, the pipes
// fill up and the console spools, as with any slow reader. A connection that is lost is made anew, without what was on its
// way; when that fails, or the job is over, what still comes is dropped.
class Uplink {
 public:
  static Result<std::unique_ptr<Uplink>> open(net::EventLoop& loop);
  ~Uplink();

  int stdout_fd() const { return pipes_[0].write.get(); }
  int stderr_fd() const { return pipes_[1].write.get(); }

  // The line that moves on the launcher's terminal; of many in a short time it sees the last.
  void set_live_line(std::string text);
  // A line for the launcher's file of events; kept until there is a connection.
  void send_event(std::string_view line);
  void connect(const net::Address& launcher, const rendezvous::Token& token, rendezvous::NodeId node);
  // Called when a connection that was lost has been made anew.
  void on_reconnected(std::function<void()> callback) { on_reconnected_ = std::move(callback); }
  // No connection is made anew: the launcher may be gone.
  void job_is_over() { over_ = true; }
  // The last bytes have been written: an unfinished line goes too.
  void flush();
  // Nobody will ever read: what comes is dropped. Before there was a connection, what goes to stderr goes to this
  // process's own: whoever started it may read that.
  void give_up();
  // Everything that was written has been handed to the network, or dropped.
  bool idle() const;
  void on_idle(std::function<void()> callback) { on_idle_ = std::move(callback); }

 private:
  struct Pipe {
    Fd read, write;
    std::string line;  // read, not yet sent: an unfinished line
  };

  struct Target {
    net::Address launcher;
    rendezvous::Token token;
    rendezvous::NodeId node = 0;
  };

  explicit Uplink(net::EventLoop& loop) : loop_(loop) {}
  void connect();
  void opened(std::unique_ptr<rendezvous::Channel> channel);
  void lost();
  void readable(uint8_t stream);
  void send_lines(uint8_t stream, std::string_view bytes);
  void send_live_line();
  void send_events();
  void update();

  net::EventLoop& loop_;
  Pipe pipes_[2];
  Target target_;
  std::unique_ptr<rendezvous::Connector> connector_;
  std::unique_ptr<rendezvous::Channel> channel_;
  net::EventLoop::TimerId again_timer_ = 0;
  std::function<void()> on_reconnected_;
  bool over_ = false;
  bool gone_ = false;
  bool was_connected_ = false;
  bool reading_ = false;
  std::string live_line_, shown_;  // as it is, and as it was sent last
  net::EventLoop::TimerId live_timer_ = 0;
  std::string events_;  // not yet sent
  std::function<void()> on_idle_;
};

}  // namespace muster::agent
