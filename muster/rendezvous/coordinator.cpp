#include <algorithm>

#include "muster/base/strings.h"
#include "muster/rendezvous/coordinator_impl.h"
#include "muster/rendezvous/torch_probe.h"

namespace muster::rendezvous {
namespace {

constexpr size_t kLongestMessage = 16 << 20;

}  // namespace

Coordinator::Impl::Impl(net::EventLoop& loop, Log& log, const CoordinatorOptions& options, CoordinatorClient& client)
    : engine_(loop, options, *this, client), loop_(loop), log_(log), client_(client) {
  Acceptor::Handlers handlers;
  handlers.joined = [this](std::unique_ptr<Channel> channel) { arrived(std::move(channel)); };
  handlers.other = [this](Fd socket, const net::Address& peer, std::string_view first_bytes) {
    // A muster that asks whether this is torchrun must not get the answer of our own store.
    if (serve_other_ && !first_bytes.starts_with(kTorchProbe))
      return serve_other_(std::move(socket), peer, first_bytes);
    acceptor_->refuse_other(peer, first_bytes);
  };
  handlers.refused = [this](const net::Address& peer, const Error& why) { client_.refused(peer.host(), why.text()); };
  AcceptorOptions acceptor;
  acceptor.token = options.token;
  if (!options.sealed_token.empty()) acceptor.sealed_token = std::make_shared<std::string>(options.sealed_token);
  acceptor.max_message = kLongestMessage;
  acceptor_ = std::make_unique<Acceptor>(loop_, log_, acceptor, std::move(handlers));
  turn_end_ = loop_.add_end_hook([this] {
    if (!new_hearts_.empty()) hearts_.adopt(std::exchange(new_hearts_, {}));
  });
  loop_.watch(hearts_.news_fd(), EPOLLIN, [this](uint32_t) { hear_news(); });
  tick();
}

Coordinator::Impl::~Impl() {
  loop_.unwatch(hearts_.news_fd());
  loop_.remove_end_hook(turn_end_);
  loop_.cancel(tick_timer_);
  for (Guest& guest : guests_) loop_.cancel(guest.patience);
}

// --- Members --------------------------------------------------------------------------------------------------------

void Coordinator::Impl::admit(std::unique_ptr<Channel> channel, const Join& join) {
  const NodeId node = engine_.join(join);
  hearts_.admit(node);
  acceptor_->expect(channel->peer());  // its warden and its output follow
  channel->limit_silence(longest_silence(membership().lease));
  channel->resume_on(loop_,
                     {.opened = {},
                      .received = [this, node](std::string_view bytes) { received(node, bytes); },
                      .closed =
                          [this, node, its = channel.get()](const Error& why) {
                            const bool knows = why.kind == ErrorKind::kPeer;
                            lose(node, its->ended_orderly() ? LinkEnd::kClosed : LinkEnd::kSilent,
                                 {.cause = knows ? Loss::Cause::kClosed : Loss::Cause::kBroken, .detail = why.message});
                          },
                      .drained = {}});
  engine_.routes().add(node, channel->peer(), channel->local(), join.addresses, join.chose_addresses);
  channel->send(encode(Welcome{
      .node = node, .job = engine_.options().job, .lease = membership().lease, .address = channel->peer().host()}));
  peers_[node].channel = std::move(channel);
}

void Coordinator::Impl::received(NodeId node, std::string_view bytes) {
  auto message = decode(bytes);
  if (!message)
    return lose(node, LinkEnd::kSilent, {.cause = Loss::Cause::kProtocol, .detail = message.error().message});
  if (const auto* pong = std::get_if<Pong>(&*message)) return answered(node, *pong);
  const auto* goodbye = std::get_if<Goodbye>(&*message);
  if (goodbye != nullptr && goodbye->node == node) {
    node_said_goodbye(state(), node);
    return engine_.decide_soon();
  }
  if (goodbye != nullptr || !engine_.received(node, *message)) broke_protocol(node);
}

void Coordinator::Impl::answered(NodeId node, const Pong& pong) {
  if (pong.sequence != peers_[node].pings) return;
  node_answered(state(), node);
  earlier_life_known(node);
}

void Coordinator::Impl::hear_news() {
  for (const HeartbeatServer::News& news : hearts_.take_news()) {
    heartbeat_ended(Clock::now(), state(), news.node, news.end);
    // The end of its control connection was sent before and may be read later. If it does not come, nothing else will.
    if (news.end == LinkEnd::kGoodbye && state().nodes.contains(news.node))
      loop_.call_after(kCloseMargin, [this, node = news.node, alive = std::weak_ptr<bool>(alive_)] {
        if (alive.expired()) return;
        lose(node, LinkEnd::kSilent, {.cause = Loss::Cause::kLeft});
      });
  }
  engine_.decide_soon();
}

void Coordinator::Impl::lose(NodeId node, LinkEnd control, const Loss& loss) {
  const TimePoint now = Clock::now();
  notice_pause(now);  // before its consequences
  if (!state().nodes.contains(node)) return;
  hearts_.forget(node);  // first: no beat that came later than what is read now is echoed
  if (auto heard = hearts_.heard(node)) node_heard(*heard, state(), node);
  peers_.erase(node);
  engine_.gone(node, control, loss);
  earlier_life_known(node);
  deserted_soon();
}

// --- Time -----------------------------------------------------------------------------------------------------------

void Coordinator::Impl::tick() {
  tick_timer_ = loop_.call_after(kBeatPeriod, [this] { tick(); });
  listen(Clock::now());
  ping_some();
  engine_.decide_soon();
}

// The nodes take turns, so that the work is spread over the period.
void Coordinator::Impl::ping_some() {
  const auto turns = static_cast<uint64_t>(std::max<int64_t>(ping_period(membership().lease) / kBeatPeriod, 1));
  const uint64_t turn = ++ticks_ % turns;
  for (auto& [id, node] : state().nodes)
    if (id % turns == turn && !node.unanswered) ping(id);
}

void Coordinator::Impl::ping(NodeId node) {
  tell({node}, Ping{++peers_[node].pings});
  node_pinged(Clock::now(), state(), node);
}

// A process that stood still has heard no node. Every pause that can end a lease is noticed.
void Coordinator::Impl::notice_pause(TimePoint now) {
  const Duration late = now - last_tick_, lease = membership().lease;
  const Duration often = std::max<Duration>(2 * kBeatPeriod + std::chrono::seconds(1), lease / 3);
  if (engine_.is_over() || late <= std::min(often, lease / 2 + kBeatPeriod)) return;
  log_.warn("this process stood still for {}", elapsed_text(late));
  paused(last_tick_, now, state(), membership());
  last_tick_ = now;
}

void Coordinator::Impl::listen(TimePoint now) {
  notice_pause(now);
  last_tick_ = now;
  for (auto& [id, node] : state().nodes)
    if (auto heard = hearts_.heard(id); heard && *heard > node.heard) node_heard(*heard, state(), id);
}

// --- Links ----------------------------------------------------------------------------------------------------------

void Coordinator::Impl::tell(const std::vector<NodeId>& nodes, const Message& message) {
  const std::string encoded = encode(message);
  for (NodeId node : nodes)
    if (auto peer = peers_.find(node); peer != peers_.end()) peer->second.channel->send(encoded);
}

void Coordinator::Impl::over(const EndJob& farewell) {
  farewell_ = encode(farewell);
  loop_.cancel(tick_timer_);
  acceptor_->tell_rest();
  dismiss_guests();
  deserted_soon();
}

void Coordinator::Impl::deserted_soon() {
  if (!engine_.is_over() || !on_deserted_ || std::exchange(looking_round_, true)) return;
  loop_.defer([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    looking_round_ = false;
    if (deserted() && on_deserted_) on_deserted_();
  });
}

// --- The interface --------------------------------------------------------------------------------------------------

Coordinator::Coordinator(net::EventLoop& loop, Log& log, const CoordinatorOptions& options, CoordinatorClient& client)
    : impl_(std::make_unique<Impl>(loop, log, options, client)) {}
Coordinator::~Coordinator() = default;

const std::optional<Error>& Coordinator::failure() const { return impl_->failure(); }
void Coordinator::expect(const net::Address& host) { impl_->acceptor_->expect(host); }
void Coordinator::listen(Fd listener) { impl_->acceptor_->listen(std::move(listener)); }
void Coordinator::serve_other(std::function<void(Fd, const net::Address&, std::string_view)> serve) {
  impl_->serve_other_ = std::move(serve);
}
void Coordinator::serve_output(std::function<void(std::unique_ptr<Channel>)> serve) {
  impl_->serve_output_ = std::move(serve);
}
void Coordinator::stop(int signal) { impl_->engine_.stop(signal); }
void Coordinator::kill() { impl_->engine_.kill(); }
void Coordinator::pass_signal(int signal) { impl_->engine_.pass_signal(signal); }
void Coordinator::host_hopeless(int position, const Error& why) {
  rendezvous::host_hopeless(impl_->engine_.state(), position, why, Clock::now());
  impl_->engine_.decide_soon();
}
void Coordinator::host_hopeful(int position) { rendezvous::host_hopeful(impl_->engine_.state(), position); }
const State& Coordinator::state() const { return impl_->engine_.state(); }
const Engine& Coordinator::engine() const { return impl_->engine_; }
size_t Coordinator::connected() const { return impl_->connected(); }
bool Coordinator::deserted() const { return impl_->deserted(); }
void Coordinator::on_deserted(std::function<void()> callback) {
  impl_->on_deserted_ = std::move(callback);
  impl_->deserted_soon();
}

}  // namespace muster::rendezvous
