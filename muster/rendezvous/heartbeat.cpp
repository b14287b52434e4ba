#include "muster/rendezvous/heartbeat.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <iterator>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace muster::rendezvous {
namespace {

// A clock estimate is the best of the current and the last window: the best of all time would not follow the drift.
constexpr Duration kOffsetWindow = std::chrono::seconds(30);

int64_t count(TimePoint time) { return std::chrono::nanoseconds(time.time_since_epoch()).count(); }

// What is known of one node. Written by the heartbeat thread (but for `stands`), read by the coordinator's.
struct Pulse {
  static constexpr int64_t kNever = INT64_MIN;

  // Sequentially consistent, both: the heartbeat thread writes `heard` and then reads `stands`, the coordinator's writes
  // `stands` (forget) and then reads `heard`. Weaker orders let each read come before its own thread's write, on arm64
  // and on x86: a beat would be echoed with stands = true that the coordinator does not know of.
  std::atomic<bool> stands{true};
  std::atomic<int64_t> heard{kNever};  // our clock

  std::atomic<int64_t> offset{kNever};  // its clock minus ours

  // The heartbeat thread's own.
  const Channel* channel = nullptr;  // of its last beat
  LinkEnd told = LinkEnd::kNone;     // the last news
  int64_t window_begin = kNever;
  int64_t best = kNever;
  int64_t best_before = kNever;

  // A beat took some time to come, which makes its clock look late: the largest difference is nearest to the truth.
  void learn(int64_t sent, int64_t received) {
    if (window_begin == kNever || received - window_begin > std::chrono::nanoseconds(kOffsetWindow).count()) {
      best_before = best;
      best = kNever;
      window_begin = received;
    }
    best = std::max(best, sent - received);
    offset.store(std::max(best, best_before), std::memory_order_relaxed);
    heard.store(received);
  }
};

}  // namespace

class HeartbeatServer::Impl {
 public:
  Impl() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), news_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    MUSTER_CHECK(wake_ && news_fd_);
    // Signals are for the thread that has always been there.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread([this] { serve(); });
      pthread_setname_np(thread_.native_handle(), "muster-beats");
    } catch (const std::system_error& error) {
      failure_ = no_process_error(error.code().value(), "cannot start the thread that answers heartbeats");
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~Impl() {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
    }
    ring(wake_);
    if (thread_.joinable()) thread_.join();
  }
  const std::optional<Error>& failure() const { return failure_; }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // --- the coordinator's thread

  void adopt(std::vector<std::unique_ptr<Channel>> channels) {
    bool first = false;
    {
      std::lock_guard lock(mutex_);
      first = adopted_.empty();
      std::ranges::move(channels, std::back_inserter(adopted_));
    }
    if (first) ring(wake_);
  }

  void set_stands(NodeId id, bool stands) {
    auto found = nodes_.find(id);
    if (found == nodes_.end()) {
      if (!stands) return;  // as it is for all who are not known
      std::lock_guard lock(mutex_);
      found = nodes_.emplace(id, std::make_shared<Pulse>()).first;
    }
    found->second->stands.store(stands);
  }

  int news_fd() const { return news_fd_.get(); }

  std::vector<News> take_news() {
    silence(news_fd_);
    std::lock_guard lock(mutex_);
    return std::exchange(news_, {});
  }

  // Changed by this thread alone, so that it may look without the lock.
  const Pulse* find(NodeId id) const {
    auto found = nodes_.find(id);
    return found == nodes_.end() ? nullptr : found->second.get();
  }

 private:
  struct Connection {
    std::unique_ptr<Channel> channel;
    NodeId id = 0;
    std::shared_ptr<Pulse> node;  // of that id, once it has beaten
  };

  static void ring(const Fd& event) {
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = ::write(event.get(), &one, sizeof one);
  }

  static void silence(const Fd& event) {
    uint64_t ignored;
    [[maybe_unused]] ssize_t size = ::read(event.get(), &ignored, sizeof ignored);
  }

  // --- the heartbeat thread

  void serve() {
    net::EventLoop loop;
    loop_ = &loop;
    loop.watch(wake_.get(), EPOLLIN, [this](uint32_t) { take_adopted(); });
    loop.run();
    connections_.clear();
  }

  void take_adopted() {
    silence(wake_);
    std::vector<std::unique_ptr<Channel>> adopted;
    {
      std::lock_guard lock(mutex_);
      adopted.swap(adopted_);
      if (ending_) loop_->stop();
    }
    for (auto& channel : adopted) {
      Channel* key = channel.get();
      Connection& connection = connections_[key];
      connection.channel = std::move(channel);
      Channel::Handlers handlers;
      handlers.received = [this, &connection](std::string_view message) { answer(connection, message); };
      handlers.closed = [this, &connection](const Error&) {
        end(connection, connection.channel->ended_orderly() ? LinkEnd::kClosed : LinkEnd::kSilent);
      };
      key->resume_on(*loop_, std::move(handlers));
    }
  }

  void answer(Connection& connection, std::string_view message) {
    int64_t now = count(Clock::now());
    Result<Message> decoded = decode(message);
    if (const Goodbye* goodbye = decoded ? std::get_if<Goodbye>(&*decoded) : nullptr) {
      identify(connection, goodbye->node);
      return tell(connection, LinkEnd::kGoodbye);
    }
    const Beat* beat = decoded ? std::get_if<Beat>(&*decoded) : nullptr;
    if (beat == nullptr) return end(connection, LinkEnd::kSilent);  // not a warden
    identify(connection, beat->node);
    if (connection.node) connection.node->learn(beat->sent, now);
    bool stands = connection.node && connection.node->stands.load();
    connection.channel->send(encode(Echo{beat->sequence, beat->sent, now, stands}));
  }

  void identify(Connection& connection, NodeId id) {
    if (!connection.node || connection.id != id) {
      connection.id = id;
      connection.node = look_up(id);
    }
    if (!connection.node || connection.node->channel == connection.channel.get()) return;
    connection.node->channel = connection.channel.get();
    tell(connection, LinkEnd::kNone);
  }

  // The connection is gone afterwards. The end of one that its warden has replaced by another is not news.
  void end(Connection& connection, LinkEnd how) {
    if (connection.node && connection.node->channel == connection.channel.get()) {
      connection.node->channel = nullptr;
      tell(connection, how);
    }
    connections_.erase(connection.channel.get());
  }

  void tell(Connection& connection, LinkEnd how) {
    if (!connection.node || connection.node->told == how || connection.node->told == LinkEnd::kGoodbye) return;
    connection.node->told = how;
    bool first = false;
    {
      std::lock_guard lock(mutex_);
      first = news_.empty();
      news_.push_back({connection.id, how});
    }
    if (first) ring(news_fd_);
  }

  std::shared_ptr<Pulse> look_up(NodeId id) {
    std::lock_guard lock(mutex_);
    auto found = nodes_.find(id);
    return found == nodes_.end() ? nullptr : found->second;
  }

  Fd wake_;     // rung for the heartbeat thread
  Fd news_fd_;  // rung for the coordinator's
  std::mutex mutex_;
  bool ending_ = false;                            // under the mutex
  std::vector<News> news_;                         // under the mutex
  std::vector<std::unique_ptr<Channel>> adopted_;  // under the mutex
  // Changed by the coordinator's thread under the mutex; the heartbeat thread looks under the mutex.
  std::unordered_map<NodeId, std::shared_ptr<Pulse>> nodes_;
  net::EventLoop* loop_ = nullptr;                        // the heartbeat thread's
  std::unordered_map<Channel*, Connection> connections_;  // likewise
  std::thread thread_;
  std::optional<Error> failure_;
};

HeartbeatServer::HeartbeatServer() : impl_(std::make_unique<Impl>()) {}
HeartbeatServer::~HeartbeatServer() = default;
const std::optional<Error>& HeartbeatServer::failure() const { return impl_->failure(); }
void HeartbeatServer::adopt(std::vector<std::unique_ptr<Channel>> channels) { impl_->adopt(std::move(channels)); }
void HeartbeatServer::forget(NodeId node) { impl_->set_stands(node, false); }
void HeartbeatServer::admit(NodeId node) { impl_->set_stands(node, true); }

int HeartbeatServer::news_fd() const { return impl_->news_fd(); }
std::vector<HeartbeatServer::News> HeartbeatServer::take_news() { return impl_->take_news(); }

std::optional<TimePoint> HeartbeatServer::heard(NodeId id) const {
  const Pulse* node = impl_->find(id);
  int64_t heard = node == nullptr ? Pulse::kNever : node->heard.load();
  if (heard == Pulse::kNever) return std::nullopt;
  return TimePoint(std::chrono::nanoseconds(heard));
}

std::optional<Duration> HeartbeatServer::clock_offset(NodeId id) const {
  const Pulse* node = impl_->find(id);
  int64_t offset = node == nullptr ? Pulse::kNever : node->offset.load(std::memory_order_relaxed);
  if (offset == Pulse::kNever) return std::nullopt;
  return std::chrono::nanoseconds(offset);
}

}  // namespace muster::rendezvous
