#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "muster/net/address.h"
#include "muster/net/event_loop.h"
#include "muster/output/outlet.h"
#include "muster/rendezvous/channel.h"
#include "muster/rendezvous/protocol.h"

namespace muster::output {

// An agent's stdout and stderr on their way to the launcher: two outlets that the console writes to, and a connection that
// carries whole lines. While kOutputWindow bytes are not acknowledged, or there is no connection yet, the outlets take
// nothing and the console spools, as with any slow reader. A connection that is lost, or on which an answer has not come
// for a lease, is made anew, and what was not acknowledged is sent again (output/receiver.h). This is tried for as
// long as the job runs. When the job is over and no connection can be made, or the launcher closes it, what still comes is
// dropped. A reset may come from anything on the way: after it, another connection is tried.
class Uplink {
 public:
  explicit Uplink(net::EventLoop& loop);
  ~Uplink();
  Uplink(const Uplink&) = delete;
  Uplink& operator=(const Uplink&) = delete;

  std::array<Outlet*, 2> outlets() { return {&streams_[0], &streams_[1]}; }

  // The line that moves on the launcher's terminal; of many in a short time it sees the last.
  void set_live_line(std::string text);
  // A line for the launcher's file of events; kept until there is a connection.
  void send_event(std::string_view line);
  // `patience`: for an answer of the launcher. If there is no connection after `connect_time`, a warning goes to this
  // process's own stderr, once.
  void connect(const net::Address& launcher, const job::Token& token, rendezvous::NodeId node, Duration patience,
               Duration connect_time = std::chrono::seconds(30));
  // Called when a connection that was lost has been made anew.
  void on_reconnected(std::function<void()> callback) { on_reconnected_ = std::move(callback); }
  // The launcher may be gone: when it has closed the connection no other is made.
  void job_is_over() { over_ = true; }
  // The last bytes have been written: an unfinished line goes too.
  void flush();
  // The same, and the launcher is told that nothing follows. From now on idle() waits for its acknowledgement.
  void end();
  // Nobody will ever read: what comes is dropped. Before there was a connection, what goes to stderr goes to this
  // process's own: whoever started it may read that.
  void give_up();
  // Everything that the outlets took has been handed to the network, or dropped. After end(): has been acknowledged.
  bool idle() const;
  void on_idle(std::function<void()> callback) { on_idle_ = std::move(callback); }

 private:
  class Stream final : public Outlet {
   public:
    Stream(Uplink& uplink, uint8_t number) : uplink_(uplink), number_(number) {}
    ssize_t write(std::string_view bytes) override { return uplink_.take(number_, bytes); }
    void watch(bool wanted) override {
      wanted_ = wanted;
      uplink_.wake_soon();
    }
    void wake() const {
      if (wanted_ && on_ready) on_ready();
    }
    bool wanted() const { return wanted_; }
    std::string line;  // taken, not yet sent: an unfinished line

   private:
    Uplink& uplink_;
    uint8_t number_;
    bool wanted_ = false;
  };

  struct Target {
    net::Address launcher;
    job::Token token;
    rendezvous::NodeId node = 0;
    Duration patience{};
    Duration connect_time{};
  };

  void connect();
  void not_connected(const Error& why);
  void opened(std::unique_ptr<rendezvous::Channel> channel);
  void received(std::string_view bytes);
  void lost(bool closed_by_launcher);
  void connect_again();
  void expect_answer();
  void check_answer();
  void send(const rendezvous::Chunk& chunk);
  bool has_room() const;
  ssize_t take(uint8_t stream, std::string_view bytes);
  void wake_soon();
  void send_lines(uint8_t stream, std::string_view bytes);
  void send_live_line();
  void update();

  net::EventLoop& loop_;
  std::array<Stream, 2> streams_;
  Target target_;
  std::unique_ptr<rendezvous::Connector> connector_;
  std::unique_ptr<rendezvous::Channel> channel_;
  net::EventLoop::TimerId again_timer_ = 0;
  std::function<void()> on_reconnected_;
  bool over_ = false;
  bool gone_ = false;
  bool was_connected_ = false;
  bool warned_ = false;            // that there is no connection
  std::string live_line_, shown_;  // as it is, and as it was sent last
  net::EventLoop::TimerId live_timer_ = 0;
  std::deque<std::string> kept_;  // encoded chunks that are not acknowledged
  size_t kept_bytes_ = 0;
  uint64_t acknowledged_ = 0;  // chunks
  bool ready_ = false;         // the launcher has told which chunks it has: they may be sent on channel_
  bool ended_ = false;
  TimePoint answer_due_;  // if something is kept
  TimePoint checked_;
  net::EventLoop::TimerId check_timer_ = 0;
  bool waking_ = false;  // deferred
  std::function<void()> on_idle_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for deferred calls
};

}  // namespace muster::output
