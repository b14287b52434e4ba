#pragma once

// The coordinator at work: coordinator.cpp has who comes and what they say, coordinator_rounds.cpp when and what is
// decided and carried out. For these two alone.

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/rendezvous/coordinator.h"
#include "muster/rendezvous/heartbeat.h"
#include "muster/rendezvous/output_intake.h"
#include "muster/rendezvous/route.h"

namespace muster::rendezvous {

// A member: one life of an agent.
struct Peer {
  std::string host;
  std::unique_ptr<Channel> channel;
  std::vector<int> pids;
  std::optional<RoundEnded> ended;  // of the current round
  uint64_t pings = 0;               // sent
  bool asked_to_stop = false;
};

// A connection that has the token and has not said who it is.
struct Guest {
  std::unique_ptr<Channel> channel;
  net::EventLoop::TimerId patience = 0;
  bool answered = false;      // it has all that it will get, but our end: a description, a refusal, how the job ended
  std::optional<Join> waits;  // control: until it is known whether an earlier life of its node is still there
};

class Coordinator::Impl {
 public:
  Impl(net::EventLoop& loop, Log& log, CoordinatorOptions options, CoordinatorClient& client);
  ~Impl();

  void stop(int signal, const std::string& host = {});
  void kill();
  void pass_signal(int signal);
  void deserted_soon();
  size_t connected() const { return connected_; }

  net::EventLoop& loop_;
  Log& log_;
  CoordinatorOptions options_;
  CoordinatorClient& client_;
  State state_;
  std::map<NodeId, Peer> peers_;
  std::unique_ptr<Acceptor> acceptor_;
  std::function<void(Fd, const net::Address&, std::string_view)> serve_other_;
  std::function<void()> on_deserted_;
  OutputIntake output_;
  bool over_ = false;

  void decide_soon();
  const std::optional<Error>& failure() const { return hearts_.failure(); }

 private:
  using GuestId = std::list<Guest>::iterator;

  void arrived(std::unique_ptr<Channel> channel);
  void introduced(GuestId guest, std::string_view bytes);
  void leave(GuestId guest);
  void join(GuestId guest, const Join& join);
  void wait_for_earlier_life(GuestId guest, const Join& join, NodeId earlier);
  void earlier_life_known(NodeId node);
  void describe(GuestId guest, std::string_view name);
  void dismiss_answered();
  void begin_output(GuestId guest, const OutputHello& hello);
  void answer_last(GuestId guest, const std::string& encoded);

  void received(NodeId node, std::string_view bytes);
  void on(NodeId node, const StoreOpened& opened);
  void on(NodeId node, const RoundStarted& started);
  void on(NodeId node, const WorkerFailed& failed);
  void on(NodeId node, const RoundEnded& ended);
  void on(NodeId node, const StopRequest& request);
  void on(NodeId node, const Pong& pong);
  void on(NodeId node, const Goodbye& goodbye);
  template <typename Other>
  void on(NodeId node, const Other& /*not for a coordinator*/) {
    broke_protocol(node);
  }
  void broke_protocol(NodeId node) { lose(node, LinkEnd::kSilent, {ErrorKind::kSystem, "it broke the protocol", {}}); }
  void hear_news();
  // kPeer: the other side knows, and delivers its output to the end.
  void lose(NodeId node, LinkEnd control, const Error& why);

  void tick();
  void ping_some();
  void ping(NodeId node);
  void notice_pause(TimePoint now);
  void listen_to_hearts(TimePoint now);
  void decide_now();
  bool carry_out(TimePoint now, const Decision& decision);
  void open_round(const Decision& decision);
  void start_round(uint16_t port);
  void stop_round(TimePoint now, const Decision& decision);
  void judge_round();
  void end_job(const Decision& decision);
  void tell(NodeId node, const std::string& encoded);

  HeartbeatServer hearts_;
  std::vector<std::unique_ptr<Channel>> new_hearts_;  // of this turn of the loop: their thread is woken once for all
  Routes routes_;
  size_t connected_ = 0;  // peers with a channel
  size_t started_ = 0;    // members that have told the pids of this round
  std::list<Guest> guests_;
  TimePoint last_tick_ = Clock::now();
  uint64_t ticks_ = 0;
  net::EventLoop::TimerId tick_timer_ = 0;
  net::EventLoop::TimerId wake_timer_ = 0;
  net::EventLoop::TimerId soon_timer_ = 0;
  bool deciding_ = false;     // deferred
  bool guest_waits_ = false;  // maybe; Guest::waits
  TimePoint decided_;
  net::EventLoop::HookId turn_end_ = 0;
  bool looking_round_ = false;  // for anybody who is still there; deferred
  std::string told_reason_;
  std::string farewell_;  // for nodes that come when the job is over
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::rendezvous
