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
#include <thread>
#include <unordered_map>
#include <vector>

namespace muster::rendezvous {
namespace {

// A clock estimate is the best of the current and the last window: the best of all time would not follow the drift.
constexpr Duration kOffsetWindow = std::chrono::seconds(30);

int64_t count(TimePoint time) { return std::chrono::nanoseconds(time.time_since_epoch()).count(); }

// What is known of one node. Written by the heartbeat thread (but for `stands`), read by the coordinator's.
struct Node {
  static constexpr int64_t kNever = INT64_MIN;

  std::atomic<bool> stands{true};
  std::atomic<int64_t> heard{kNever};   // our clock
  std::atomic<int64_t> offset{kNever};  // its clock minus ours

  // The heartbeat thread's own.
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
    heard.store(received, std::memory_order_relaxed);
  }
};

}  // namespace

class HeartbeatServer::Impl {
 public:
  Impl() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    MUSTER_CHECK(wake_);
    // Signals are for the thread that has always been there.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { serve(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(thread_.native_handle(), "muster-beats");
  }

  ~Impl() {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake();
    thread_.join();
  }
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
    if (first) wake();
  }

  void set_stands(NodeId id, bool stands) {
    auto found = nodes_.find(id);
    if (found == nodes_.end()) {
      if (!stands) return;  // as it is for all who are not known
      std::lock_guard lock(mutex_);
      found = nodes_.emplace(id, std::make_shared<Node>()).first;
    }
    found->second->stands.store(stands, std::memory_order_relaxed);
  }

  // Changed by this thread alone, so that it may look without the lock.
  const Node* find(NodeId id) const {
    auto found = nodes_.find(id);
    return found == nodes_.end() ? nullptr : found->second.get();
  }

 private:
  struct Connection {
    std::unique_ptr<Channel> channel;
    NodeId id = 0;
    std::shared_ptr<Node> node;  // of that id, once it has beaten
  };

  void wake() {
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = ::write(wake_.get(), &one, sizeof one);
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
    uint64_t ignored;
    [[maybe_unused]] ssize_t size = ::read(wake_.get(), &ignored, sizeof ignored);
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
      handlers.closed = [this, key](const Error&) { connections_.erase(key); };
      key->resume_on(*loop_, std::move(handlers));
    }
  }

  void answer(Connection& connection, std::string_view message) {
    int64_t now = count(Clock::now());
    Result<Message> decoded = decode(message);
    const Beat* beat = decoded ? std::get_if<Beat>(&*decoded) : nullptr;
    if (beat == nullptr) {
      connections_.erase(connection.channel.get());  // not a warden
      return;
    }
    if (!connection.node || connection.id != beat->node) {
      connection.id = beat->node;
      connection.node = look_up(beat->node);
    }
    if (connection.node) connection.node->learn(beat->sent, now);
    bool stands = connection.node && connection.node->stands.load(std::memory_order_relaxed);
    connection.channel->send(encode(Echo{beat->sequence, beat->sent, now, stands}));
  }

  std::shared_ptr<Node> look_up(NodeId id) {
    std::lock_guard lock(mutex_);
    auto found = nodes_.find(id);
    return found == nodes_.end() ? nullptr : found->second;
  }

  Fd wake_;
  std::mutex mutex_;
  bool ending_ = false;                            // under the mutex
  std::vector<std::unique_ptr<Channel>> adopted_;  // under the mutex
  // Changed by the coordinator's thread under the mutex; the heartbeat thread looks under the mutex.
  std::unordered_map<NodeId, std::shared_ptr<Node>> nodes_;
  net::EventLoop* loop_ = nullptr;                        // the heartbeat thread's
  std::unordered_map<Channel*, Connection> connections_;  // likewise
  std::thread thread_;
};

HeartbeatServer::HeartbeatServer() : impl_(std::make_unique<Impl>()) {}
HeartbeatServer::~HeartbeatServer() = default;
void HeartbeatServer::adopt(std::vector<std::unique_ptr<Channel>> channels) { impl_->adopt(std::move(channels)); }
void HeartbeatServer::forget(NodeId node) { impl_->set_stands(node, false); }
void HeartbeatServer::admit(NodeId node) { impl_->set_stands(node, true); }

std::optional<TimePoint> HeartbeatServer::heard(NodeId id) const {
  const Node* node = impl_->find(id);
  int64_t heard = node == nullptr ? Node::kNever : node->heard.load(std::memory_order_relaxed);
  if (heard == Node::kNever) return std::nullopt;
  return TimePoint(std::chrono::nanoseconds(heard));
}

std::optional<Duration> HeartbeatServer::clock_offset(NodeId id) const {
  const Node* node = impl_->find(id);
  int64_t offset = node == nullptr ? Node::kNever : node->offset.load(std::memory_order_relaxed);
  if (offset == Node::kNever) return std::nullopt;
  return std::chrono::nanoseconds(offset);
}

}  // namespace muster::rendezvous
