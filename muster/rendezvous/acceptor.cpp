#include "muster/rendezvous/acceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <list>
#include <unordered_map>
#include <utility>

#include "muster/base/strings.h"
#include "muster/net/socket.h"
#include "muster/rendezvous/channel_impl.h"
#include "muster/rendezvous/torch_probe.h"

namespace muster::rendezvous {
namespace {

// Of one wake-up: those who are let in must get a word in between.
constexpr int kAcceptsPerTurn = 64;
// After an accept that failed for want of descriptors or memory.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);
constexpr size_t kMostRefusedHosts = 1024;

}  // namespace

class Acceptor::Impl {
 public:
  Impl(net::EventLoop& loop, Log& log, AcceptorOptions options, Handlers handlers)
      : loop_(loop),
        log_(log),
        options_(std::move(options)),
        handlers_(std::make_shared<Handlers>(std::move(handlers))) {
    MUSTER_CHECK(options_.kept_for_expected < options_.max_strangers);
    patience_ = options_.hello_time;
    channel_options_.token = options_.token;
    channel_options_.sealed_token = options_.sealed_token;
    channel_options_.max_message = options_.max_message;
    channel_options_.handshake_timeout = Duration::zero();  // our own clock sees to it, for all of them
  }

  ~Impl() {
    *alive_ = false;
    loop_.cancel(expiry_);
    loop_.cancel(retry_);
    loop_.cancel(window_end_);
    loop_.cancel(key_end_);
    if (listener_) loop_.unwatch(listener_.get());
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void listen(Fd listener);
  void expect(const net::Address& peer) { expected_.insert(peer.host()); }
  void refuse_other(const net::Address& peer, std::string_view first_bytes);
  void tell_rest();
  uint64_t dropped() const { return dropped_; }

 private:
  // In order of arrival, so that the first is the oldest and the next to be late.
  struct Stranger {
    std::unique_ptr<ChannelImpl> channel;
    TimePoint since;
    bool expected;
  };
  using Strangers = std::list<Stranger>;

  void accept_some();
  size_t all_strangers() const { return strangers_.size() + expected_strangers_.size(); }
  size_t room_for_unexpected() const;
  TimePoint safe_until(const Stranger& stranger) const;
  Strangers::iterator next_to_go();
  TimePoint accept_from();
  bool make_room(bool expected);
  void admit(Fd socket, const net::Address& peer);
  Strangers& line(bool expected) { return expected ? expected_strangers_ : strangers_; }
  std::unique_ptr<ChannelImpl> take(Strangers::iterator stranger);
  void drop(Strangers::iterator stranger);
  void count_stranger(const net::Address& peer);
  void drop_late(Strangers& line);
  void arm_expiry();
  void joined(Strangers::iterator stranger);
  void closed(Strangers::iterator stranger, const Error& why);
  void other(Strangers::iterator stranger, Fd socket, std::string_view first_bytes);
  void accept_later(TimePoint when);
  void accept_again();
  void have_keys();
  void refuse(const net::Address& peer, const Error& why);
  bool worth_telling(const net::Address& peer, const std::string& what);
  bool within_limit();

  net::EventLoop& loop_;
  Log& log_;
  AcceptorOptions options_;
  Channel::Options channel_options_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::shared_ptr<Handlers> handlers_;  // a handler may destroy us, and is kept while it runs
  Fd listener_;
  bool waiting_ = false;  // the listener is not watched for now
  net::EventLoop::TimerId retry_ = 0;
  net::EventLoop::TimerId expiry_ = 0;
  bool expiry_armed_ = false;
  std::unordered_set<std::string> expected_;
  Strangers strangers_, expected_strangers_;
  struct Told {
    TimePoint when;
    std::string what;
  };
  std::unordered_map<std::string, Told> told_;  // the last refusal that was, by host
  int told_in_window_ = 0, untold_ = 0;
  net::EventLoop::TimerId window_end_ = 0;
  net::EventLoop::TimerId key_end_ = 0;
  Duration patience_;  // with those who have sent a hello
  uint64_t dropped_ = 0;
  bool stranger_told_ = false;
};

void Acceptor::Impl::listen(Fd listener) {
  MUSTER_CHECK(!listener_);
  listener_ = std::move(listener);
  int on = 1;  // inherited by what is accepted
  ::setsockopt(listener_.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  int silent_seconds = 1;  // connections that say nothing stay with the kernel so long
  ::setsockopt(listener_.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &silent_seconds, sizeof silent_seconds);
  loop_.watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept_some(); });
}

void Acceptor::Impl::accept_some() {
  std::shared_ptr<bool> alive = alive_;
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    if (TimePoint from = accept_from(); from > loop_.now()) return accept_later(from);
    net::Address peer;
    Result<Fd> socket = net::accept_tcp(listener_.get(), &peer);
    if (!socket) {
      log_.warn("{}; trying again", socket.error().text());
      return accept_later(loop_.now() + kAcceptPause);
    }
    if (!*socket) return;
    admit(std::move(*socket), peer);
    if (!*alive) return;
  }
}

size_t Acceptor::Impl::room_for_unexpected() const { return options_.max_strangers - options_.kept_for_expected; }

TimePoint Acceptor::Impl::safe_until(const Stranger& stranger) const {
  return stranger.since + (stranger.channel->awaits_proof() ? patience_ : options_.silent_time);
}

// Who goes next when a place is needed: unexpected ones first, there the one who had its time first.
Acceptor::Impl::Strangers::iterator Acceptor::Impl::next_to_go() {
  Strangers& line = strangers_.empty() ? expected_strangers_ : strangers_;
  return std::min_element(line.begin(), line.end(), [this](const Stranger& one, const Stranger& other) {
    return safe_until(one) < safe_until(other);
  });
}

// When the next one may be accepted, whoever it is.
TimePoint Acceptor::Impl::accept_from() {
  if (all_strangers() < options_.max_strangers && strangers_.size() < room_for_unexpected()) return TimePoint::min();
  return safe_until(*next_to_go());
}

// False: there is none.
bool Acceptor::Impl::make_room(bool expected) {
  while (all_strangers() >= options_.max_strangers || (!expected && strangers_.size() >= room_for_unexpected())) {
    if (strangers_.empty() && !expected) return false;
    auto stranger = next_to_go();
    size_t before = all_strangers();
    std::shared_ptr<bool> alive = alive_;
    stranger->channel->poke();  // its proof may have come meanwhile
    if (!*alive) return false;
    if (all_strangers() < before) continue;
    if (stranger->channel->awaits_proof()) patience_ = std::max(patience_ / 2, options_.silent_time);
    drop(stranger);
  }
  return true;
}

void Acceptor::Impl::admit(Fd socket, const net::Address& peer) {
  bool expected = !expected_.empty() && expected_.contains(peer.host());
  std::shared_ptr<bool> alive = alive_;
  if (!make_room(expected)) {
    if (*alive) count_stranger(peer);
    return;
  }
  auto stranger = line(expected).insert(line(expected).end(), Stranger{nullptr, loop_.now(), expected});
  have_keys();
  Channel::Handlers handlers;
  handlers.opened = [this, stranger] { joined(stranger); };
  handlers.closed = [this, stranger](const Error& why) { closed(stranger, why); };
  stranger->channel = std::make_unique<ChannelImpl>(
      loop_, std::move(socket), peer, channel_options_, std::move(handlers), ChannelImpl::Side::kServer,
      [this, stranger](Fd other_socket, std::string_view bytes) { other(stranger, std::move(other_socket), bytes); });
  arm_expiry();
  stranger->channel->poke();  // mostly the hello has come with the connection
}

void Acceptor::Impl::have_keys() {
  if (channel_options_.keys) return;
  channel_options_.keys = KeyPair::make();
  key_end_ = loop_.call_after(options_.key_time, [this] { channel_options_.keys.reset(); });
}

void Acceptor::Impl::accept_later(TimePoint when) {
  waiting_ = true;
  loop_.rearm(listener_.get(), 0);
  retry_ = loop_.call_at(when, [this] { accept_again(); });
}

void Acceptor::Impl::accept_again() {
  if (!waiting_) return;
  waiting_ = false;
  loop_.cancel(retry_);
  loop_.rearm(listener_.get(), EPOLLIN);
}

// --- strangers no more --------------------------------------------------------------------------------------------

std::unique_ptr<ChannelImpl> Acceptor::Impl::take(Strangers::iterator stranger) {
  std::unique_ptr<ChannelImpl> channel = std::move(stranger->channel);
  line(stranger->expected).erase(stranger);
  accept_again();
  return channel;
}

void Acceptor::Impl::drop(Strangers::iterator stranger) {
  count_stranger(stranger->channel->peer());
  take(stranger);
}

void Acceptor::Impl::count_stranger(const net::Address& peer) {
  ++dropped_;
  if (!std::exchange(stranger_told_, true))
    log_.debug("{} connected and did not prove itself; others who do not are not named", peer.text());
}

void Acceptor::Impl::joined(Strangers::iterator stranger) {
  std::unique_ptr<Channel> channel = take(stranger);
  patience_ = std::min(2 * patience_, options_.hello_time);
  std::shared_ptr<Handlers> handlers = handlers_;
  if (handlers->joined) handlers->joined(std::move(channel));
}

void Acceptor::Impl::closed(Strangers::iterator stranger, const Error& why) {
  std::unique_ptr<ChannelImpl> channel = take(stranger);
  Verdict verdict = channel->verdict();
  if (verdict == Verdict::kAsksToken) return;
  const bool refused =
      verdict == Verdict::kOtherVersion || verdict == Verdict::kWrongToken || verdict == Verdict::kAnotherJob;
  if (!refused) return count_stranger(channel->peer());
  refuse(channel->peer(), why);
}

void Acceptor::Impl::refuse(const net::Address& peer, const Error& why) {
  ++dropped_;
  std::shared_ptr<Handlers> handlers = handlers_;
  if (!handlers->refused || !worth_telling(peer, why.message) || !within_limit()) return;
  told_[peer.host()] = {loop_.now(), why.message};
  handlers->refused(peer, why);
}

void Acceptor::Impl::refuse_other(const net::Address& peer, std::string_view first_bytes) {
  // A muster that had to wait for our answer asks whether this is torchrun.
  const bool torchrun = first_bytes.starts_with(kTorchHello) && !first_bytes.starts_with(kTorchProbe);
  if (!torchrun) return count_stranger(peer);
  refuse(peer, speaks_torchrun(peer.host()));
}

void Acceptor::Impl::other(Strangers::iterator stranger, Fd socket, std::string_view first_bytes) {
  std::shared_ptr<Handlers> handlers = handlers_;
  std::unique_ptr<ChannelImpl> channel = take(stranger);
  if (handlers->other)
    handlers->other(std::move(socket), channel->peer(), first_bytes);
  else
    refuse_other(channel->peer(), first_bytes);
}

bool Acceptor::Impl::worth_telling(const net::Address& peer, const std::string& what) {
  auto is_past = [this](const Told& told, Duration pause) { return told.when + pause <= loop_.now(); };
  if (told_.size() >= kMostRefusedHosts)
    std::erase_if(told_, [&](const auto& entry) { return is_past(entry.second, options_.refusal_pause); });
  auto last = told_.find(peer.host());
  if (last == told_.end()) return told_.size() < kMostRefusedHosts;
  return is_past(last->second, what == last->second.what ? options_.same_refusal_pause : options_.refusal_pause);
}

bool Acceptor::Impl::within_limit() {
  if (told_in_window_ == 0)
    window_end_ = loop_.call_after(options_.refusal_window, [this] {
      tell_rest();
      told_in_window_ = 0;
    });
  if (told_in_window_ < options_.most_refusals) return ++told_in_window_ > 0;
  ++untold_;
  return false;
}

void Acceptor::Impl::tell_rest() {
  if (untold_ > 0) log_.warn("refused {} more connections within {}", untold_, seconds_text(options_.refusal_window));
  untold_ = 0;
}

// --- time ---------------------------------------------------------------------------------------------------------

// One timer for all: it follows the oldest, and is not moved when that one leaves early.
void Acceptor::Impl::arm_expiry() {
  if (expiry_armed_ || (strangers_.empty() && expected_strangers_.empty())) return;
  TimePoint first = TimePoint::max();
  for (const Strangers* line : {&strangers_, &expected_strangers_})
    if (!line->empty()) first = std::min(first, line->front().since);
  expiry_armed_ = true;
  expiry_ = loop_.call_at(first + options_.stranger_time, [this] {
    expiry_armed_ = false;
    drop_late(strangers_);
    drop_late(expected_strangers_);
    arm_expiry();
  });
}

void Acceptor::Impl::drop_late(Strangers& line) {
  while (!line.empty() && line.front().since + options_.stranger_time <= loop_.now()) drop(line.begin());
}

// --- Acceptor -----------------------------------------------------------------------------------------------------

Acceptor::Acceptor(net::EventLoop& loop, Log& log, AcceptorOptions options, Handlers handlers)
    : impl_(std::make_unique<Impl>(loop, log, std::move(options), std::move(handlers))) {}
Acceptor::~Acceptor() = default;
void Acceptor::listen(Fd listener) { impl_->listen(std::move(listener)); }
void Acceptor::expect(const net::Address& peer) { impl_->expect(peer); }
void Acceptor::refuse_other(const net::Address& peer, std::string_view first_bytes) {
  impl_->refuse_other(peer, first_bytes);
}
void Acceptor::tell_rest() { impl_->tell_rest(); }
uint64_t Acceptor::strangers_dropped() const { return impl_->dropped(); }

}  // namespace muster::rendezvous
