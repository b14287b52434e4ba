#include <algorithm>

#include "muster/base/random.h"
#include "muster/rendezvous/coordinator_impl.h"
#include "muster/rendezvous/torch_probe.h"

namespace muster::rendezvous {
namespace {

// From the end of the handshake to the first message that says who it is.
constexpr auto kIntroduction = std::chrono::seconds(5);
constexpr size_t kLongestName = 1024;  // of a host
constexpr size_t kLongestMessage = 16 << 20;

}  // namespace

Coordinator::Impl::Impl(net::EventLoop& loop, Log& log, CoordinatorOptions options, CoordinatorClient& client)
    : loop_(loop),
      log_(log),
      options_(std::move(options)),
      client_(client),
      output_(
          loop, [this](const std::string& host, const Chunk& chunk) { return client_.output(host, chunk); },
          [this] { deserted_soon(); }) {
  if (options_.job.empty()) options_.job = random_job_id();
  state_.began = Clock::now();
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
  acceptor.token = options_.token;
  if (!options_.sealed_token.empty()) acceptor.sealed_token = std::make_shared<std::string>(options_.sealed_token);
  acceptor.max_message = kLongestMessage;
  acceptor_ = std::make_unique<Acceptor>(loop_, log_, acceptor, std::move(handlers));
  turn_end_ = loop_.add_end_hook([this] {
    if (!new_hearts_.empty()) hearts_.adopt(std::exchange(new_hearts_, {}));
    output_.turn_ended();
  });
  loop_.watch(hearts_.news_fd(), EPOLLIN, [this](uint32_t) { hear_news(); });
  tick();
}

Coordinator::Impl::~Impl() {
  *alive_ = false;
  loop_.unwatch(hearts_.news_fd());
  loop_.remove_end_hook(turn_end_);
  loop_.cancel(tick_timer_);
  loop_.cancel(wake_timer_);
  loop_.cancel(soon_timer_);
  for (Guest& guest : guests_) loop_.cancel(guest.patience);
}

// --- Who comes ------------------------------------------------------------------------------------------------------

void Coordinator::Impl::arrived(std::unique_ptr<Channel> channel) {
  if (channel->purpose() == Purpose::kHeartbeat) {
    channel->detach();
    return new_hearts_.push_back(std::move(channel));
  }
  guests_.emplace_front().channel = std::move(channel);
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
  if (guest->answered) return leave(guest);
  if (guest->channel->purpose() == Purpose::kDescription) return describe(guest, bytes);
  auto message = decode(bytes);
  if (!message) return leave(guest);
  const Purpose purpose = guest->channel->purpose();
  if (const auto* join_message = std::get_if<Join>(&*message); join_message && purpose == Purpose::kControl)
    return join(guest, *join_message);
  if (const auto* hello = std::get_if<OutputHello>(&*message); hello && purpose == Purpose::kOutput)
    return begin_output(guest, *hello);
  leave(guest);
}

// It hangs up when it is a member. Until then, however long its set-up takes, the end of this connection tells it that
// nobody waits for it.
void Coordinator::Impl::describe(GuestId guest, std::string_view name) {
  if (name.size() > kLongestName || over_) return leave(guest);
  guest->answered = true;
  const std::string description = client_.describe(std::string(name));
  guest->channel->send(description);
  if (!description.empty()) loop_.cancel(std::exchange(guest->patience, 0));
}

void Coordinator::Impl::dismiss_answered() {
  for (auto guest = guests_.begin(); guest != guests_.end();)
    if (const GuestId each = guest++; each->answered) leave(each);
}

void Coordinator::Impl::begin_output(GuestId guest, const OutputHello& hello) {
  output_.adopt(hello.node, std::move(guest->channel));  // an unknown node's channel ends here
  leave(guest);
}

// It closes when it has read that, or is left after a while.
void Coordinator::Impl::answer_last(GuestId guest, const std::string& encoded) {
  guest->channel->send(encoded);
  guest->answered = true;
  guest->waits.reset();
  loop_.cancel(guest->patience);
  guest->patience = loop_.call_after(kIntroduction, [this, guest] { leave(guest); });
}

void Coordinator::Impl::join(GuestId guest, const Join& join) {
  const TimePoint now = Clock::now();
  if (over_) return answer_last(guest, farewell_);
  if (auto reason = refusal(now, state_, options_.membership, join)) {
    auto earlier = earlier_life(state_, join);
    if (earlier && !guest->waits) return wait_for_earlier_life(guest, join, *earlier);
    client_.refused(join.host, *reason);
    return answer_last(guest, encode(Refuse{*reason, {}}));
  }
  std::unique_ptr<Channel> channel = std::move(guest->channel);
  loop_.cancel(guest->patience);
  guests_.erase(guest);
  const NodeId node = node_joined(now, state_, join);
  hearts_.admit(node);
  output_.expect(node, join.host);
  acceptor_->expect(channel->peer());  // its warden and its output follow
  channel->limit_silence(longest_silence(options_.membership.lease));
  channel->resume_on(loop_, {.opened = {},
                             .received = [this, node](std::string_view bytes) { received(node, bytes); },
                             .closed =
                                 [this, node, its = channel.get()](const Error& why) {
                                   lose(node, its->ended_orderly() ? LinkEnd::kClosed : LinkEnd::kSilent, why);
                                 },
                             .drained = {}});
  Peer& peer = peers_[node];
  peer.host = join.host;
  peer.channel = std::move(channel);
  ++connected_;
  routes_.add(node, peer.channel->peer(), peer.channel->local(), join.addresses, join.chose_addresses);
  peer.channel->send(encode(Welcome{
      .node = node, .job = options_.job, .lease = options_.membership.lease, .address = peer.channel->peer().host()}));
  client_.joined(state_.nodes.at(node));
  decide_soon();
}

// A machine that has booted again answers for its earlier life at once, with a reset; an agent that lives, with a Pong.
// Without an answer it is lost at lease + margin after the Ping; until then, or the end of the job, the guest waits.
void Coordinator::Impl::wait_for_earlier_life(GuestId guest, const Join& join, NodeId earlier) {
  guest->waits = join;
  guest_waits_ = true;
  if (!state_.nodes.at(earlier).unanswered) ping(earlier);
  loop_.cancel(std::exchange(guest->patience, 0));
}

void Coordinator::Impl::earlier_life_known(NodeId node) {
  if (!std::exchange(guest_waits_, false)) return;
  std::vector<GuestId> waiting;
  for (GuestId guest = guests_.begin(); guest != guests_.end(); ++guest) {
    if (!guest->waits) continue;
    if (earlier_life(state_, *guest->waits).value_or(node) == node)
      waiting.push_back(guest);
    else
      guest_waits_ = true;
  }
  for (GuestId guest : waiting) join(guest, Join(*guest->waits));
}

// --- What members say -----------------------------------------------------------------------------------------------

void Coordinator::Impl::received(NodeId node, std::string_view bytes) {
  auto message = decode(bytes);
  if (!message) return lose(node, LinkEnd::kSilent, {ErrorKind::kSystem, message.error().message, {}});
  std::visit([&](const auto& each) { on(node, each); }, *message);
  if (!std::holds_alternative<RoundStarted>(*message) && !std::holds_alternative<Pong>(*message)) decide_soon();
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
  if (std::exchange(peers_[node].asked_to_stop, true)) return kill();  // it asks again
  stop(request.signal, state_.nodes.at(node).join.host);
}

void Coordinator::Impl::on(NodeId node, const Pong& pong) {
  if (pong.sequence != peers_[node].pings) return;
  node_answered(state_, node);
  earlier_life_known(node);
}

void Coordinator::Impl::on(NodeId node, const Goodbye& goodbye) {
  if (goodbye.node != node) return broke_protocol(node);
  node_said_goodbye(state_, node);
}

void Coordinator::Impl::hear_news() {
  for (const HeartbeatServer::News& news : hearts_.take_news()) {
    heartbeat_ended(Clock::now(), state_, news.node, news.end);
    // The end of its control connection was sent before and may be read later. If it does not come, nothing else will.
    if (news.end == LinkEnd::kGoodbye && state_.nodes.contains(news.node))
      loop_.call_after(kCloseMargin, [this, node = news.node, alive = std::weak_ptr<bool>(alive_)] {
        if (alive.expired()) return;
        lose(node, LinkEnd::kSilent, {ErrorKind::kTimeout, "everything of the job on it has ended", {}});
      });
  }
  decide_soon();
}

void Coordinator::Impl::lose(NodeId node, LinkEnd control, const Error& why) {
  const TimePoint now = Clock::now();
  notice_pause(now);  // before its consequences
  auto found = state_.nodes.find(node);
  if (found == state_.nodes.end()) return;
  hearts_.forget(node);  // first: no beat that came later than what is read now is echoed
  if (auto heard = hearts_.heard(node)) node_heard(*heard, state_, node);
  Node known = found->second;
  known.ended_by_our_pause = ended_by_our_pause(now, state_, options_.membership, known);
  node_gone(now, state_, options_.membership, node, control, why.message);
  if (auto peer = peers_.find(node); peer != peers_.end()) {
    if (std::exchange(peer->second.channel, nullptr)) --connected_;
    if (!peer->second.ended) peers_.erase(peer);  // else what it told of the round is still needed
  }
  routes_.remove(node);
  // When the job is over its last lines may still come, on whatever connection. A silent node will not hang up.
  if (!over_) output_.lost(node, why.kind != ErrorKind::kPeer);
  if (!over_) client_.gone(known, why.message);
  earlier_life_known(node);
  decide_soon();
  deserted_soon();
}

// --- The interface --------------------------------------------------------------------------------------------------

Coordinator::Coordinator(net::EventLoop& loop, Log& log, CoordinatorOptions options, CoordinatorClient& client)
    : impl_(std::make_unique<Impl>(loop, log, std::move(options), client)) {}
Coordinator::~Coordinator() = default;

const std::optional<Error>& Coordinator::failure() const { return impl_->failure(); }
void Coordinator::expect(const net::Address& host) { impl_->acceptor_->expect(host); }
void Coordinator::listen(Fd listener) { impl_->acceptor_->listen(std::move(listener)); }
void Coordinator::serve_other(std::function<void(Fd, const net::Address&, std::string_view)> serve) {
  impl_->serve_other_ = std::move(serve);
}
void Coordinator::stop(int signal) { impl_->stop(signal); }
void Coordinator::kill() { impl_->kill(); }
void Coordinator::pass_signal(int signal) { impl_->pass_signal(signal); }
void Coordinator::host_hopeless(int position, const std::string& why, int exit_code) {
  rendezvous::host_hopeless(impl_->state_, position, why, exit_code, Clock::now());
  impl_->decide_soon();
}
void Coordinator::host_hopeful(int position) { rendezvous::host_hopeful(impl_->state_, position); }
void Coordinator::take_output() { impl_->output_.room(); }
std::vector<OutputIntake::Unfinished> Coordinator::unfinished_output() const { return impl_->output_.unfinished(); }
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
