#include "muster/rendezvous/coordinator.h"

#include <algorithm>
#include <csignal>
#include <list>

#include "muster/base/random.h"
#include "muster/rendezvous/heartbeat.h"
#include "muster/rendezvous/route.h"

namespace muster::rendezvous {
namespace {

// From the end of the handshake to the first message that says who it is.
constexpr auto kIntroduction = std::chrono::seconds(5);
constexpr size_t kLongestMessage = 16 << 20;
// A decision is a walk over the nodes. With so many of them, and messages that come one by one, it waits a little for
// more of them, so that deciding takes a small part of the time however many they are.
constexpr size_t kManyNodes = 512;
constexpr auto kDecisionPausePerNode = std::chrono::microseconds(3);

std::string random_id() {
  unsigned char bytes[8];
  fill_random(bytes);
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

// Of forwarding output, before it rests.
constexpr Duration kOutputTurn = std::chrono::milliseconds(2);

// A member: one life of an agent.
struct Peer {
  std::string host;
  std::unique_ptr<Channel> channel;
  std::vector<int> pids;
  std::optional<RoundEnded> ended;  // of the current round
};

// A connection that has the token and has not said who it is, or one that carries output.
struct Guest {
  std::unique_ptr<Channel> channel;
  net::EventLoop::TimerId patience = 0;
  std::string host;  // output: of its node
  NodeId node = 0;
};

}  // namespace

class Coordinator::Impl {
 public:
  Impl(net::EventLoop& loop, Log& log, CoordinatorOptions options, CoordinatorClient& client);
  ~Impl();

  void stop(int signal);
  void kill();
  void pass_signal(int signal);
  void take_output();
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
  bool over_ = false;

  void decide_soon();

 private:
  using GuestId = std::list<Guest>::iterator;

  void arrived(std::unique_ptr<Channel> channel);
  void introduced(GuestId guest, std::string_view bytes);
  void leave(GuestId guest);
  void join(GuestId guest, const Join& join);
  void begin_output(GuestId guest, const OutputHello& hello);
  void rest_from_output();
  void refuse(Channel& channel, const std::string& reason);

  void received(NodeId node, std::string_view bytes);
  void on(NodeId node, const StoreOpened& opened);
  void on(NodeId node, const RoundStarted& started);
  void on(NodeId node, const WorkerFailed& failed);
  void on(NodeId node, const RoundEnded& ended);
  void on(NodeId node, const StopRequest& request);
  template <typename Other>
  void on(NodeId node, const Other& /*not for a coordinator*/) {
    lose(node, true, "it broke the protocol");
  }
  void lose(NodeId node, bool silent, const std::string& why);

  void tick();
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
  Routes routes_;
  size_t connected_ = 0;  // peers with a channel
  size_t started_ = 0;    // members that have told the pids of this round
  std::list<Guest> guests_;
  TimePoint last_tick_ = Clock::now();
  net::EventLoop::TimerId tick_timer_ = 0;
  net::EventLoop::TimerId wake_timer_ = 0;
  net::EventLoop::TimerId soon_timer_ = 0;
  bool deciding_ = false;  // deferred
  TimePoint decided_;
  bool output_came_ = false;                 // in this turn of the loop
  Duration output_debt_{};                   // time taken for output that was not yet left to everything else
  TimePoint output_counted_;                 // until when
  net::EventLoop::TimerId output_rest_ = 0;  // while it goes on
  net::EventLoop::HookId turn_end_ = 0;
  bool looking_round_ = false;  // for anybody who is still there; deferred
  std::string told_reason_;
  std::string text_;  // for agents, once the job is over
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

Coordinator::Impl::Impl(net::EventLoop& loop, Log& log, CoordinatorOptions options, CoordinatorClient& client)
    : loop_(loop), log_(log), options_(std::move(options)), client_(client) {
  if (options_.job.empty()) options_.job = random_id();
  state_.began = Clock::now();
  Acceptor::Handlers handlers;
  handlers.joined = [this](std::unique_ptr<Channel> channel) { arrived(std::move(channel)); };
  handlers.other = [this](Fd socket, const net::Address& peer, std::string_view first_bytes) {
    if (serve_other_) serve_other_(std::move(socket), peer, first_bytes);
  };
  handlers.refused = [this](const net::Address& peer, const Error& why) { client_.refused(peer.host(), why.message); };
  AcceptorOptions acceptor;
  acceptor.token = options_.token;
  acceptor.max_message = kLongestMessage;
  acceptor_ = std::make_unique<Acceptor>(loop_, log_, acceptor, std::move(handlers));
  turn_end_ = loop_.add_end_hook([this] { rest_from_output(); });
  tick();
}

Coordinator::Impl::~Impl() {
  *alive_ = false;
  loop_.remove_end_hook(turn_end_);
  loop_.cancel(output_rest_);
  loop_.cancel(tick_timer_);
  loop_.cancel(wake_timer_);
  loop_.cancel(soon_timer_);
  for (Guest& guest : guests_) loop_.cancel(guest.patience);
}

// --- Who comes ------------------------------------------------------------------------------------------------------

void Coordinator::Impl::arrived(std::unique_ptr<Channel> channel) {
  if (channel->purpose() == Purpose::kHeartbeat) {
    channel->detach();
    return hearts_.adopt(std::move(channel));
  }
  guests_.push_front({std::move(channel), 0, {}, 0});
  const GuestId guest = guests_.begin();
  guest->patience = loop_.call_after(kIntroduction, [this, guest] { leave(guest); });
  guest->channel->resume_on(loop_, {.opened = {},
                                    .received = [this, guest](std::string_view bytes) { introduced(guest, bytes); },
                                    .closed = [this, guest](const Error&) { leave(guest); },
                                    .drained = {}});
}

void Coordinator::Impl::leave(GuestId guest) {
  loop_.cancel(guest->patience);
  guests_.erase(guest);
  deserted_soon();
}

void Coordinator::Impl::introduced(GuestId guest, std::string_view bytes) {
  auto message = decode(bytes);
  if (!message) return leave(guest);
  const Purpose purpose = guest->channel->purpose();
  if (const auto* join_message = std::get_if<Join>(&*message); join_message && purpose == Purpose::kControl)
    return join(guest, *join_message);
  if (const auto* hello = std::get_if<OutputHello>(&*message); hello && purpose == Purpose::kOutput)
    return begin_output(guest, *hello);
  if (const auto* chunk = std::get_if<Chunk>(&*message); chunk && !guest->host.empty()) {
    output_came_ = true;
    if (!client_.output(guest->host, *chunk)) guest->channel->pause(true);
    return;
  }
  leave(guest);
}

void Coordinator::Impl::begin_output(GuestId guest, const OutputHello& hello) {
  auto node = state_.nodes.find(hello.node);
  if (node == state_.nodes.end()) return leave(guest);
  guest->host = node->second.join.host;
  guest->node = hello.node;
  loop_.cancel(std::exchange(guest->patience, 0));
}

// Forwarding takes half of the time at most: what it takes, it leaves to the rest, while the nodes keep their output.
// Else a flood would occupy this process, and on a busy machine a process that is never idle waits for its turns.
void Coordinator::Impl::rest_from_output() {
  if (!std::exchange(output_came_, false)) return;
  const TimePoint now = Clock::now();
  output_debt_ = std::max(Duration(0), output_debt_ - (loop_.now() - output_counted_)) + (now - loop_.now());
  output_counted_ = now;
  if (output_debt_ < kOutputTurn || output_rest_ != 0) return;
  for (Guest& guest : guests_)
    if (!guest.host.empty()) guest.channel->pause(true);
  output_rest_ = loop_.call_at(now + output_debt_, [this] {
    output_rest_ = 0;
    take_output();
  });
}

void Coordinator::Impl::take_output() {
  if (output_rest_ != 0) return;
  for (Guest& guest : guests_)
    if (!guest.host.empty()) guest.channel->pause(false);
}

void Coordinator::Impl::refuse(Channel& channel, const std::string& reason) {
  channel.send(encode(Refuse{reason, {}}));
}

void Coordinator::Impl::join(GuestId guest, const Join& join) {
  const TimePoint now = Clock::now();
  if (auto reason =
          over_ ? std::optional<std::string>("the job is over") : refusal(now, state_, options_.membership, join)) {
    client_.refused(join.host, *reason);
    refuse(*guest->channel, *reason);
    return;  // it closes when it has read that, or its patience ends
  }
  std::unique_ptr<Channel> channel = std::move(guest->channel);
  loop_.cancel(guest->patience);
  guests_.erase(guest);
  const NodeId node = node_joined(now, state_, join);
  hearts_.admit(node);
  acceptor_->expect(channel->peer());  // its warden and its output follow
  channel->resume_on(
      loop_, {.opened = {},
              .received = [this, node](std::string_view bytes) { received(node, bytes); },
              .closed = [this, node](const Error& why) { lose(node, why.kind != ErrorKind::kPeer, why.message); },
              .drained = {}});
  Peer& peer = peers_[node];
  peer.host = join.host;
  peer.channel = std::move(channel);
  ++connected_;
  routes_.add(node, peer.channel->peer(), peer.channel->local(), join.addresses);
  peer.channel->send(encode(Welcome{
      .node = node, .job = options_.job, .lease = options_.membership.lease, .address = peer.channel->peer().host()}));
  client_.joined(state_.nodes.at(node));
  decide_soon();
}

// --- What members say -----------------------------------------------------------------------------------------------

void Coordinator::Impl::received(NodeId node, std::string_view bytes) {
  auto message = decode(bytes);
  if (!message) return lose(node, true, message.error().message);
  std::visit([&](const auto& each) { on(node, each); }, *message);
  if (!std::holds_alternative<RoundStarted>(*message)) decide_soon();
}

void Coordinator::Impl::on(NodeId node, const StoreOpened& opened) {
  if (state_.round_state != RoundState::kOpening || opened.round != state_.round || state_.members.front() != node)
    return;
  if (opened.error.empty()) return start_round(opened.port);
  peers_[node].ended =
      RoundEnded{.round = opened.round, .succeeded = false, .outcomes = {}, .start_error = opened.error};
  round_ended(state_, node, opened.round, false);
}

void Coordinator::Impl::on(NodeId node, const RoundStarted& started) {
  if (started.round != state_.round) return;
  std::vector<int>& pids = peers_[node].pids;
  const bool news = pids.empty() && !started.pids.empty() && state_.nodes.at(node).last_round == state_.round;
  pids = started.pids;
  if (news && ++started_ == state_.members.size()) client_.round_started(state_);
}

void Coordinator::Impl::on(NodeId node, const WorkerFailed& failed) {
  if (failed.round == state_.round && state_.round_state == RoundState::kRunning)
    log_.info("rank {} on {} failed: {}", failed.rank, state_.nodes.at(node).join.host, failed.what);
  worker_failed(state_, node, failed.round);
  decide_now();  // its peers are told at once
}

void Coordinator::Impl::on(NodeId node, const RoundEnded& ended) {
  if (ended.round == state_.round) peers_[node].ended = ended;
  round_ended(state_, node, ended.round, ended.succeeded);
}

void Coordinator::Impl::on(NodeId node, const StopRequest& request) {
  log_.info("{} was asked to end", state_.nodes.at(node).join.host);
  stop(request.signal);
}

void Coordinator::Impl::lose(NodeId node, bool silent, const std::string& why) {
  auto found = state_.nodes.find(node);
  if (found == state_.nodes.end()) return;
  const Node known = found->second;
  if (auto heard = hearts_.heard(node)) node_heard(*heard, state_, node);
  hearts_.forget(node);
  node_gone(Clock::now(), state_, options_.membership, node, silent, why);
  if (auto peer = peers_.find(node); peer != peers_.end()) {
    if (std::exchange(peer->second.channel, nullptr)) --connected_;
    if (!peer->second.ended) peers_.erase(peer);  // else what it told of the round is still needed
  }
  routes_.remove(node);
  // A silent one will not hang up. Another may have sent its workers' last lines before.
  if (silent) guests_.remove_if([node](const Guest& guest) { return guest.node == node; });
  if (!over_) client_.gone(known, why);
  decide_soon();
  deserted_soon();
}

// --- Time -----------------------------------------------------------------------------------------------------------

void Coordinator::Impl::tick() {
  tick_timer_ = loop_.call_after(kBeatPeriod, [this] { tick(); });
  listen_to_hearts(Clock::now());
  decide_soon();
}

void Coordinator::Impl::listen_to_hearts(TimePoint now) {
  // Whoever stood still has heard nobody.
  const Duration late = now - last_tick_;
  last_tick_ = now;
  if (late > std::max<Duration>(2 * kBeatPeriod + std::chrono::seconds(1), options_.membership.lease / 3)) {
    log_.warn("this process stood still for {:.1f} s", std::chrono::duration<double>(late).count());
    paused(now, state_);
  }
  for (auto& [id, node] : state_.nodes)
    if (auto heard = hearts_.heard(id); heard && *heard > node.heard) node_heard(*heard, state_, id);
}

void Coordinator::Impl::decide_soon() {
  if (std::exchange(deciding_, true)) return;
  const size_t nodes = state_.nodes.size();
  const TimePoint from = decided_ + nodes * kDecisionPausePerNode;
  if (nodes >= kManyNodes && loop_.now() < from) {
    soon_timer_ = loop_.call_at(from, [this] { decide_now(); });
    return;
  }
  loop_.defer([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired() || !*alive.lock()) return;
    decide_now();
  });
}

void Coordinator::Impl::decide_now() {
  deciding_ = false;
  loop_.cancel(wake_timer_);
  loop_.cancel(soon_timer_);
  if (over_) return;
  const TimePoint now = decided_ = Clock::now();
  for (bool listened = false;;) {
    const Decision decision = decide(now, state_, options_.membership);
    // What was heard since the last tick may contradict; it is not looked up for every other decision.
    if (decision.kind == Decision::Kind::kDropNode && !std::exchange(listened, true)) {
      listen_to_hearts(now);
      continue;
    }
    if (decision.reason != told_reason_) {
      told_reason_ = decision.reason;
      client_.changed(state_, decision);
    }
    if (decision.kind == Decision::Kind::kWait) {
      if (decision.wake_at) wake_timer_ = loop_.call_at(*decision.wake_at, [this] { decide_now(); });
      return;
    }
    if (!carry_out(now, decision)) return;
  }
}

// False: the job is over.
bool Coordinator::Impl::carry_out(TimePoint now, const Decision& decision) {
  switch (decision.kind) {
    case Decision::Kind::kWait:
      break;
    case Decision::Kind::kOpenRound:
      open_round(decision);
      break;
    case Decision::Kind::kStopRound:
      stop_round(now, decision);
      break;
    case Decision::Kind::kJudge:
      judge_round();
      break;
    case Decision::Kind::kDropNode:
      lose(decision.node, true, decision.reason);
      break;
    case Decision::Kind::kEndJob:
      end_job(decision);
      return false;
  }
  return true;
}

// --- Rounds ---------------------------------------------------------------------------------------------------------

void Coordinator::Impl::tell(NodeId node, const std::string& encoded) {
  auto peer = peers_.find(node);
  if (peer != peers_.end() && peer->second.channel) peer->second.channel->send(encoded);
}

void Coordinator::Impl::open_round(const Decision& decision) {
  round_opened(state_, decision.members);
  std::erase_if(peers_, [&](const auto& peer) { return !state_.nodes.contains(peer.first); });
  for (auto& [id, peer] : peers_) {
    peer.pids.clear();
    peer.ended.reset();
  }
  started_ = 0;
  tell(state_.members.front(), encode(OpenStore{.round = state_.round, .members = routes_.all()}));
}

void Coordinator::Impl::start_round(uint16_t port) {
  std::vector<StartRound> starts = place(state_, state_.members, state_.round, state_.restarts);
  const NodeId first = state_.members.front();
  for (size_t i = 0; i < state_.members.size(); ++i) {
    const NodeId node = state_.members[i];
    starts[i].master_port = port;
    starts[i].own_address = routes_.own_address(node);
    starts[i].master_addresses =
        options_.master_addr.empty() ? routes_.towards(node, first) : std::vector{options_.master_addr};
    tell(node, encode(starts[i]));
  }
  round_running(state_);
}

void Coordinator::Impl::stop_round(TimePoint now, const Decision& decision) {
  const std::string message = encode(StopRound{
      .round = state_.round, .signal = decision.signal, .grace = options_.stop_grace, .reason = decision.reason});
  for (NodeId member : state_.members) {
    auto node = state_.nodes.find(member);
    if (node != state_.nodes.end() && node->second.part == Part::kRuns) tell(member, message);
  }
  round_stopping(now, state_, decision.reason, decision.counts_as_restart);
}

void Coordinator::Impl::judge_round() {
  std::vector<NodeOutcomes> outcomes;
  for (NodeId member : state_.members) {
    auto peer = peers_.find(member);
    if (peer == peers_.end() || !peer->second.ended) continue;
    outcomes.push_back({.host = peer->second.host,
                        .node = member,
                        .bytes = std::move(peer->second.ended->outcomes),
                        .clock_offset = hearts_.clock_offset(member),
                        .start_error = peer->second.ended->start_error});
  }
  judged(state_, client_.judge(state_.round, outcomes));
}

void Coordinator::Impl::end_job(const Decision& decision) {
  job_ended(state_, decision);
  over_ = true;
  loop_.cancel(tick_timer_);
  loop_.cancel(wake_timer_);
  text_ = client_.ended(decision);
  const std::string message = encode(EndJob{.exit_code = decision.exit_code, .text = text_});
  for (auto& [id, peer] : peers_) tell(id, message);
  deserted_soon();
}

void Coordinator::Impl::stop(int signal) {
  stop_requested(state_, signal);
  decide_soon();
}

void Coordinator::Impl::kill() {
  const std::string message =
      encode(StopRound{.round = state_.round, .signal = SIGKILL, .grace = Duration(0), .reason = "killed"});
  for (NodeId member : state_.members) tell(member, message);
}

void Coordinator::Impl::pass_signal(int signal) {
  const std::string message = encode(PassSignal{signal});
  for (auto& [id, peer] : peers_) tell(id, message);
}

void Coordinator::Impl::deserted_soon() {
  if (!over_ || !on_deserted_ || std::exchange(looking_round_, true)) return;
  loop_.defer([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired() || !*alive.lock()) return;
    looking_round_ = false;
    if (connected_ == 0 && guests_.empty() && on_deserted_) on_deserted_();
  });
}

// --- The interface --------------------------------------------------------------------------------------------------

Coordinator::Coordinator(net::EventLoop& loop, Log& log, CoordinatorOptions options, CoordinatorClient& client)
    : impl_(std::make_unique<Impl>(loop, log, std::move(options), client)) {}
Coordinator::~Coordinator() = default;

void Coordinator::expect(const net::Address& host) { impl_->acceptor_->expect(host); }
void Coordinator::listen(Fd listener) { impl_->acceptor_->listen(std::move(listener)); }
void Coordinator::serve_other(std::function<void(Fd, const net::Address&, std::string_view)> serve) {
  impl_->serve_other_ = std::move(serve);
}
void Coordinator::stop(int signal) { impl_->stop(signal); }
void Coordinator::kill() { impl_->kill(); }
void Coordinator::pass_signal(int signal) { impl_->pass_signal(signal); }
void Coordinator::host_hopeless(int position, const std::string& why, int exit_code) {
  rendezvous::host_hopeless(impl_->state_, position, why, exit_code);
  impl_->decide_soon();
}
void Coordinator::host_hopeful(int position) { rendezvous::host_hopeful(impl_->state_, position); }
void Coordinator::take_output() { impl_->take_output(); }
const State& Coordinator::state() const { return impl_->state_; }
const std::vector<int>& Coordinator::pids(NodeId node) const {
  static const std::vector<int> nobody;
  auto peer = impl_->peers_.find(node);
  return peer == impl_->peers_.end() ? nobody : peer->second.pids;
}
const std::string& Coordinator::job() const { return impl_->options_.job; }
std::string Coordinator::address(NodeId node) const {
  auto peer = impl_->peers_.find(node);
  return peer == impl_->peers_.end() || !peer->second.channel ? "" : peer->second.channel->peer().host();
}
size_t Coordinator::connected() const { return impl_->connected(); }
void Coordinator::on_deserted(std::function<void()> callback) {
  impl_->on_deserted_ = std::move(callback);
  impl_->deserted_soon();
}

}  // namespace muster::rendezvous
