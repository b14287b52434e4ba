#pragma once

// The coordinator at work: coordinator_door.cpp has the nodes that come, coordinator.cpp those that are members. For
// these two alone.

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/rendezvous/coordinator.h"
#include "muster/rendezvous/heartbeat.h"

namespace muster::rendezvous {

// A member: one life of an agent.
struct Peer {
  std::unique_ptr<Channel> channel;
  uint64_t pings = 0;  // sent
};

// A connection that has the token and has not said who it is.
struct Guest {
  std::unique_ptr<Channel> channel;
  net::EventLoop::TimerId patience = 0;
  bool answered = false;      // it has all that it will get, but our end: a description, a refusal, how the job ended
  std::optional<Join> waits;  // control: until it is known whether an earlier life of its node is still there
};

class Coordinator::Impl final : private Links {
 public:
  Impl(net::EventLoop& loop, Log& log, const CoordinatorOptions& options, CoordinatorClient& client);
  ~Impl();

  const std::optional<Error>& failure() const { return hearts_.failure(); }
  size_t connected() const { return peers_.size(); }
  bool deserted() const { return engine_.is_over() && peers_.empty() && guests_.empty(); }
  void deserted_soon();

  Engine engine_;
  std::unique_ptr<Acceptor> acceptor_;
  std::function<void(Fd, const net::Address&, std::string_view)> serve_other_;
  std::function<void(std::unique_ptr<Channel>)> serve_output_;
  std::function<void()> on_deserted_;

 private:
  using GuestId = std::list<Guest>::iterator;

  // --- the nodes that come
  void arrived(std::unique_ptr<Channel> channel);
  void introduced(GuestId guest, std::string_view bytes);
  void leave(GuestId guest);
  void join(GuestId guest, const Join& join);
  void admit(std::unique_ptr<Channel> channel, const Join& join);
  void wait_for_earlier_life(GuestId guest, const Join& join, NodeId earlier);
  void earlier_life_known(NodeId node);
  void describe(GuestId guest, std::string_view name);
  void answer_last(GuestId guest, const std::string& encoded);
  void dismiss_guests();

  // --- members
  void received(NodeId node, std::string_view bytes);
  void answered(NodeId node, const Pong& pong);
  void broke_protocol(NodeId node) { lose(node, LinkEnd::kSilent, {.cause = Loss::Cause::kProtocol}); }
  void hear_news();
  void lose(NodeId node, LinkEnd control, const Loss& loss);
  void tick();
  void ping_some();
  void ping(NodeId node);
  void notice_pause(TimePoint now);

  // Links
  void tell(const std::vector<NodeId>& nodes, const Message& message) override;
  void drop(NodeId node, const Loss& loss) override { lose(node, LinkEnd::kSilent, loss); }
  void listen(TimePoint now) override;
  std::optional<Duration> clock_offset(NodeId node) const override { return hearts_.clock_offset(node); }
  void over(const EndJob& farewell) override;

  State& state() { return engine_.state(); }
  const MembershipOptions& membership() const { return engine_.options().membership; }

  net::EventLoop& loop_;
  Log& log_;
  CoordinatorClient& client_;
  HeartbeatServer hearts_;
  std::vector<std::unique_ptr<Channel>> new_hearts_;  // of this turn of the loop: their thread is woken once for all
  std::map<NodeId, Peer> peers_;
  std::list<Guest> guests_;
  bool guest_waits_ = false;  // maybe; Guest::waits
  TimePoint last_tick_ = Clock::now();
  uint64_t ticks_ = 0;
  net::EventLoop::TimerId tick_timer_ = 0;
  net::EventLoop::HookId turn_end_ = 0;
  bool looking_round_ = false;  // for anybody who is still there; deferred
  std::string farewell_;        // for nodes that come when the job is over
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::rendezvous
