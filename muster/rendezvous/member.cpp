#include "muster/rendezvous/member.h"

#include <fmt/format.h>

#include "muster/base/strings.h"
#include "muster/rendezvous/finder.h"
#include "muster/rendezvous/heartbeat.h"

namespace muster::rendezvous {
namespace {

// For one address; there may be several, and the coordinator may not be there yet.
constexpr auto kEachAddress = std::chrono::seconds(2);
constexpr auto kWaitingPeriod = std::chrono::seconds(1);

}  // namespace

class Member::Impl {
 public:
  Impl(net::EventLoop& loop, const job::Token& token, const std::vector<std::string>& coordinators, Join join,
       Deadline join_by, Handlers handlers)
      : loop_(loop), join_(std::move(join)), handlers_(std::move(handlers)) {
    Channel::Options options;
    options.token = token;
    options.max_message = 16 << 20;
    options.greeting = [this] {
      join_sent_ = Clock::now();
      return encode(join_);
    };
    finder_ = std::make_unique<Finder>(
        loop, coordinators, options, kEachAddress, join_by,
        [this](Result<std::unique_ptr<Channel>> channel) { connected(std::move(channel)); }, Finder::Questions());
    say_waiting();
  }
  ~Impl() {
    loop_.cancel(waiting_);
    loop_.cancel(listening_);
  }

  void tell(const Message& message) {
    if (channel_) channel_->send(encode(message));
  }
  const Channel* channel() const { return channel_.get(); }
  TimePoint join_sent() const { return join_sent_; }

 private:
  void connected(Result<std::unique_ptr<Channel>> channel) {
    loop_.cancel(waiting_);
    if (!channel) return handlers_.refused(channel.error());
    channel_ = *std::move(channel);
    channel_->resume_on(loop_, {.opened = {},
                                .received = [this](std::string_view bytes) { received(bytes); },
                                .closed = [this](const Error& why) { closed(why); },
                                .drained = {}});
  }

  void received(std::string_view bytes) {
    auto message = decode(bytes);
    if (!message) return closed(message.error());
    if (const auto* refuse = std::get_if<Refuse>(&*message)) {
      ended_ = true;
      return handlers_.refused({ErrorKind::kPeer, refuse->reason, refuse->hint});
    }
    if (const auto* ping = std::get_if<Ping>(&*message)) {
      unheard_ = 0;
      return tell(Pong{ping->sequence});
    }
    if (const auto* welcome = std::get_if<Welcome>(&*message)) welcomed(*welcome);
    if (std::holds_alternative<EndJob>(*message)) ended_ = true;
    handlers_.told(*message);
  }

  void welcomed(const Welcome& welcome) {
    welcomed_ = true;
    lease_ = welcome.lease;
    channel_->limit_silence(longest_silence(lease_));
    listen();
  }

  // Counts turns of this loop, not time: after a pause of this process a Ping may wait to be read. The coordinator may
  // have stood still with this process and go on later: a pause begins the count anew.
  void listen() {
    const Duration period = ping_period(lease_);
    listening_ = loop_.call_after(period, [this, period, due = Clock::now() + period] {
      constexpr int kPeriodsPerLease = 4;
      if (ended_) return;
      if (Clock::now() - due > period) unheard_ = 0;
      if (++unheard_ <= kPeriodsPerLease) return listen();
      closed({ErrorKind::kTimeout, fmt::format("it has not been heard for {}", elapsed_text(lease_)), {}});
    });
  }

  void closed(const Error& why) {
    if (ended_) return;
    ended_ = true;
    (welcomed_ ? handlers_.lost : handlers_.refused)(why);
  }

  void say_waiting() {
    waiting_ = loop_.call_after(kWaitingPeriod, [this] {
      if (std::string failure = finder_->telling_failure(); !failure.empty() && handlers_.waiting)
        handlers_.waiting(failure);
      say_waiting();
    });
  }

  net::EventLoop& loop_;
  Join join_;
  Handlers handlers_;
  std::unique_ptr<Finder> finder_;
  std::unique_ptr<Channel> channel_;
  net::EventLoop::TimerId waiting_ = 0, listening_ = 0;
  Duration lease_{};
  int unheard_ = 0;  // ping periods without a Ping
  TimePoint join_sent_;
  bool welcomed_ = false;
  bool ended_ = false;  // whatever comes now is no news
};

Member::Member(net::EventLoop& loop, const job::Token& token, const std::vector<std::string>& coordinators, Join join,
               Deadline join_by, Handlers handlers)
    : impl_(std::make_unique<Impl>(loop, token, coordinators, std::move(join), join_by, std::move(handlers))) {}
Member::~Member() = default;

void Member::tell(const Message& message) { impl_->tell(message); }
size_t Member::unsent() const { return impl_->channel() == nullptr ? 0 : impl_->channel()->unsent(); }
std::string Member::local_address() const {
  return impl_->channel() == nullptr ? "" : impl_->channel()->local().host();
}
TimePoint Member::join_sent() const { return impl_->join_sent(); }
const net::Address& Member::coordinator() const { return impl_->channel()->peer(); }

}  // namespace muster::rendezvous
