#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "muster/base/strings.h"
#include "muster/net/socket.h"
#include "muster/rendezvous/channel_impl.h"
#include "muster/rendezvous/torch_probe.h"

namespace muster::rendezvous {
namespace {

// Between two passes over the addresses. Short at first: in most jobs all nodes start together.
constexpr Duration kFirstPause = std::chrono::milliseconds(20);
constexpr Duration kLongestPause = std::chrono::milliseconds(250);

// A server that has our greeting has so many times `each` to prove itself, if there are other addresses. Anybody can send
// a server's hello. A coordinator that lives answers our proof within two seconds; one that acts upon the greeting later
// finds the connection closed, which ends that membership, and our next greeting begins another one.
constexpr int kGreetedPatience = 5;

// "connection refused", as a part of a sentence.
std::string error_text(int error) {
  std::string text = std::strerror(error);
  text[0] = lower_case(text.substr(0, 1))[0];
  return text;
}

// In any order: a resolver deals them anew each time.
bool same_addresses(const std::vector<net::Address>& one, const std::vector<net::Address>& other) {
  auto texts = [](const std::vector<net::Address>& addresses) {
    std::set<std::string> found;
    for (const net::Address& address : addresses) found.insert(address.text());
    return found;
  };
  return texts(one) == texts(other);
}

void set_option(int socket, int level, int name, int value = 1) {
  ::setsockopt(socket, level, name, &value, sizeof value);
}

// A firewall on the way may forget a connection that is idle for a few seconds, and drop what comes later: output after
// a quiet hour, the end of a long set-up. The kernel's probes keep it known and cost the coordinator's loop nothing. They
// decide nothing: how long silence is borne is said by leases, so many probes may fail.
void keep_known(int socket) {
  constexpr int kIdleSeconds = 2, kMostProbes = 127;
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, kIdleSeconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kMostProbes);
}

class ConnectorImpl final : public Connector {
 public:
  using Done = std::function<void(Result<std::unique_ptr<Channel>>)>;

  ConnectorImpl(net::EventLoop& loop, std::vector<net::Address> addresses, Channel::Options options, Duration each,
                Deadline deadline, Done done)
      : loop_(loop),
        addresses_(std::move(addresses)),
        options_(std::move(options)),
        each_(each),
        deadline_(deadline),
        done_(std::move(done)),
        failures_(addresses_.size()) {
    options_.handshake_timeout = Duration::zero();  // our own timer sees to it
    step_ = loop_.call_at(TimePoint::min(), [this] { attempt(); });
  }
  ~ConnectorImpl() override { abandon(); }
  ConnectorImpl(const ConnectorImpl&) = delete;
  ConnectorImpl& operator=(const ConnectorImpl&) = delete;

  std::string telling_failure() const override;
  void aim_at(std::vector<net::Address> addresses, std::vector<Hindrance> hindrances) override;

 private:
  // The later the more it tells.
  enum class Telling { kNotTried, kTimeout, kFailed, kTorchrun, kRefused };
  struct Failure {
    Telling telling = Telling::kNotTried;
    std::string text;
    std::optional<Error> refusal;  // kRefused: a wrong token, another job, another version
  };

  void attempt();
  void connected();
  void closed(const Error& why);
  void timed_out();
  // The server may have acted upon our greeting: another one would contradict it while this connection is open.
  bool is_greeted() const { return channel_ && channel_->has_greeted(); }
  TimePoint greeted_until() const { return attempted_ + kGreetedPatience * each_; }
  void failed(std::string text) { failed({.telling = Telling::kFailed, .text = std::move(text), .refusal = {}}); }
  void failed(Failure failure);
  void suspect_torchrun();
  static Failure torchrun();
  std::vector<size_t> by_telling() const;
  std::vector<std::string> failure_texts() const;
  void abandon();
  void finish(Result<std::unique_ptr<Channel>> result);
  void give_up();

  net::EventLoop& loop_;
  std::vector<net::Address> addresses_;
  Channel::Options options_;
  Duration each_;
  Deadline deadline_;
  Done done_;
  std::vector<Failure> failures_;  // the last of each address
  std::vector<Hindrance> hindrances_;
  TimePoint started_ = Clock::now();
  TimePoint attempted_;
  Duration pause_ = kFirstPause;
  size_t index_ = 0;
  Fd socket_;  // while it connects
  std::unique_ptr<ChannelImpl> channel_;
  std::map<std::string, std::unique_ptr<TorchProbe>> probes_;  // by address; none: PyTorch's store has answered there
  net::EventLoop::TimerId step_ = 0;                           // the one thing that happens next if nothing else does
};

void ConnectorImpl::attempt() {
  if (Clock::now() >= deadline_.time()) return give_up();
  if (addresses_.empty()) {
    step_ = loop_.call_at(deadline_.time(), [this] { give_up(); });
    return;
  }
  attempted_ = Clock::now();
  step_ = loop_.call_at(std::min(attempted_ + each_, deadline_.time()), [this] { timed_out(); });
  if (int error = net::start_connect(addresses_[index_], socket_)) return failed(error_text(error));
  keep_known(socket_.get());
  loop_.watch(socket_.get(), EPOLLOUT, [this](uint32_t) { connected(); });
}

void ConnectorImpl::connected() {
  if (int error = net::connect_error(socket_.get())) return failed(error_text(error));
  loop_.unwatch(socket_.get());
  Channel::Handlers handlers;
  handlers.opened = [this] { finish(std::unique_ptr<Channel>(std::move(channel_))); };
  handlers.closed = [this](const Error& why) { closed(why); };
  channel_ = std::make_unique<ChannelImpl>(loop_, std::move(socket_), addresses_[index_], options_, std::move(handlers),
                                           ChannelImpl::Side::kClient);
}

void ConnectorImpl::closed(const Error& why) {
  Verdict verdict = channel_->verdict();
  if (verdict == Verdict::kOtherVersion || verdict == Verdict::kWrongToken || verdict == Verdict::kAnotherJob)
    return failed({.telling = Telling::kRefused, .text = why.message, .refusal = why});
  suspect_torchrun();
  failed(why.message);
}

// The server at the current address has taken our connection, and does not answer as muster does.
void ConnectorImpl::suspect_torchrun() {
  const net::Address address = addresses_[index_];
  const auto [probe, is_new] = probes_.try_emplace(address.text());
  if (!is_new && !probe->second) return;  // known
  probe->second = std::make_unique<TorchProbe>(loop_, address, [this, address] {
    probes_[address.text()].reset();
    for (size_t i = 0; i < addresses_.size(); ++i)
      if (addresses_[i].text() == address.text()) failures_[i] = torchrun();
  });
}

ConnectorImpl::Failure ConnectorImpl::torchrun() {
  return {.telling = Telling::kTorchrun, .text = speaks_torchrun("it").message, .refusal = {}};
}

void ConnectorImpl::timed_out() {
  const std::string_view what = channel_ ? "connected, but no handshake" : "no answer";
  Failure failure{.telling = Telling::kTimeout,
                  .text = fmt::format("{} within {}", what, seconds_text(Clock::now() - attempted_)),
                  .refusal = {}};
  if (channel_ && !is_greeted()) suspect_torchrun();
  const TimePoint now = Clock::now();
  const bool waited = now >= greeted_until();
  if (!is_greeted() || now >= deadline_.time() || (waited && addresses_.size() > 1)) return failed(std::move(failure));
  failures_[index_] = std::move(failure);  // for whoever asks meanwhile
  step_ =
      loop_.call_at(waited ? deadline_.time() : std::min(greeted_until(), deadline_.time()), [this] { timed_out(); });
}

void ConnectorImpl::failed(Failure failure) {
  const bool cannot_connect = failure.telling == Telling::kFailed && !channel_;
  // PyTorch's store is not there, or not any more.
  if (failure.refusal || is_greeted() || cannot_connect) probes_.erase(addresses_[index_].text());
  abandon();
  const auto probe = probes_.find(addresses_[index_].text());
  const bool is_torchrun = probe != probes_.end() && !probe->second;
  failures_[index_] = is_torchrun ? torchrun() : std::move(failure);
  Duration pause{};
  if (++index_ == addresses_.size()) {
    if (std::all_of(failures_.begin(), failures_.end(), [](const Failure& f) { return f.refusal.has_value(); }))
      return finish(Error(*failures_.back().refusal));
    index_ = 0;
    pause = std::exchange(pause_, std::min(2 * pause_, kLongestPause));
  }
  step_ = loop_.call_at(std::min(Clock::now() + pause, deadline_.time()), [this] { attempt(); });
}

// Indices of the addresses, the most telling failure first.
std::vector<size_t> ConnectorImpl::by_telling() const {
  std::vector<size_t> order(failures_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [this](size_t i) { return failures_[i].telling; });
  return order;
}

std::string ConnectorImpl::telling_failure() const {
  if (addresses_.empty()) return hindrances_.empty() ? "" : hindrances_.back().why;
  const size_t first = by_telling().front();
  return failures_[first].telling == Telling::kNotTried ? "" : addresses_[first].text() + ": " + failures_[first].text;
}

// What failed alike is said once: a default port stands for many that nobody has typed.
std::vector<std::string> ConnectorImpl::failure_texts() const {
  std::vector<std::string> texts;
  std::map<std::string, size_t> counts;
  auto text_of = [&](size_t i) { return failures_[i].text.empty() ? std::string("not tried") : failures_[i].text; };
  for (size_t i = 0; i < failures_.size(); ++i) ++counts[text_of(i)];
  for (size_t i : by_telling()) {
    const size_t count = std::exchange(counts[text_of(i)], 0);
    if (count == 0) continue;
    const std::string likewise = count == 1 ? "" : fmt::format(" (and {} more)", count - 1);
    texts.push_back(fmt::format("{}{}: {}", addresses_[i].text(), likewise, text_of(i)));
  }
  return texts;
}

void ConnectorImpl::give_up() {
  std::vector<std::string> tried = failure_texts();
  for (const Hindrance& each : hindrances_) tried.push_back(each.endpoint + ": " + each.why);
  if (tried.empty()) tried.emplace_back("no address to try");
  std::string hint = "is the coordinator running, and may this node reach its port?";
  if (addresses_.empty()) hint = "give a name that this node can look up, or an address";
  for (const Failure& failure : failures_) {
    if (failure.telling == Telling::kTorchrun) hint = speaks_torchrun("").hint;
    if (failure.refusal) hint = failure.refusal->hint;
  }
  finish(Error{ErrorKind::kTimeout,
               fmt::format("no connection in {}: {}", seconds_text(Clock::now() - started_), join(tried, "; ")), hint});
}

void ConnectorImpl::aim_at(std::vector<net::Address> addresses, std::vector<Hindrance> hindrances) {
  hindrances_ = std::move(hindrances);
  if (same_addresses(addresses, addresses_)) return;
  if (is_greeted() && Clock::now() < greeted_until()) return;
  abandon();
  addresses_ = std::move(addresses);
  failures_.assign(addresses_.size(), {});
  index_ = 0;
  pause_ = kFirstPause;
  step_ = loop_.call_at(TimePoint::min(), [this] { attempt(); });
}

void ConnectorImpl::abandon() {
  loop_.cancel(step_);
  if (socket_) loop_.unwatch(socket_.get());
  socket_.reset();
  channel_.reset();
}

void ConnectorImpl::finish(Result<std::unique_ptr<Channel>> result) {
  abandon();
  Done done = std::move(done_);
  done(std::move(result));  // may be the end of this object
}

}  // namespace

std::unique_ptr<Connector> Connector::start(net::EventLoop& loop, std::vector<net::Address> addresses,
                                            Channel::Options options, Duration each, Deadline deadline,
                                            std::function<void(Result<std::unique_ptr<Channel>>)> done) {
  return std::make_unique<ConnectorImpl>(loop, std::move(addresses), std::move(options), each, deadline,
                                         std::move(done));
}

}  // namespace muster::rendezvous
