#include "muster/rendezvous/heartbeat.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "muster/base/error.h"

namespace muster::rendezvous {
namespace {

// What is known of one node's heart. Written by the thread, read by the coordinator's, and shared because a node may
// be forgotten while a beat of it is being answered.
struct Heart {
  std::atomic<bool> stands{true};
  std::atomic<int64_t> heard{0};  // steady clock, ns; 0: never
  std::atomic<int64_t> offset{0};
  std::atomic<bool> has_offset{false};
};

int64_t nanoseconds(TimePoint time) { return time.time_since_epoch().count(); }

}  // namespace

class HeartbeatServer::Impl {
 public:
  Impl() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    MUSTER_CHECK(wake_);
    loop_.watch(wake_.get(), EPOLLIN, [this](uint32_t) { take_over(); });
    thread_ = std::thread([this] { loop_.run(); });
    ::pthread_setname_np(thread_.native_handle(), "heartbeats");
  }
  ~Impl() {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake();
    thread_.join();
  }

  void adopt(std::unique_ptr<Channel> channel) {
    {
      std::lock_guard lock(mutex_);
      newcomers_.push_back(std::move(channel));
    }
    wake();
  }

  void set_stands(NodeId node, bool stands) {
    std::lock_guard lock(mutex_);
    auto& heart = hearts_[node];
    if (!heart) heart = std::make_shared<Heart>();
    heart->stands = stands;
  }

  std::shared_ptr<Heart> find(NodeId node) const {
    std::lock_guard lock(mutex_);
    auto found = hearts_.find(node);
    return found == hearts_.end() ? nullptr : found->second;
  }

 private:
  // A warden's connection; on the thread.
  struct Line {
    std::unique_ptr<Channel> channel;
    NodeId node = 0;
    std::shared_ptr<Heart> heart;
  };
  using LineId = std::list<Line>::iterator;

  void wake() {
    const uint64_t one = 1;
    [[maybe_unused]] ssize_t written = ::write(wake_.get(), &one, sizeof one);
  }

  void take_over() {
    uint64_t count = 0;
    [[maybe_unused]] ssize_t size = ::read(wake_.get(), &count, sizeof count);
    std::vector<std::unique_ptr<Channel>> newcomers;
    {
      std::lock_guard lock(mutex_);
      newcomers.swap(newcomers_);
      if (ending_) loop_.stop();
    }
    for (auto& channel : newcomers) {
      lines_.push_front({.channel = std::move(channel), .node = 0, .heart = nullptr});
      const LineId line = lines_.begin();
      line->channel->resume_on(loop_, {.opened = {},
                                       .received = [this, line](std::string_view bytes) { received(line, bytes); },
                                       .closed = [this, line](const Error&) { lines_.erase(line); },
                                       .drained = {}});
    }
  }

  void received(LineId line, std::string_view bytes) {
    auto message = decode(bytes);
    const auto* beat = message ? std::get_if<Beat>(&*message) : nullptr;
    if (beat == nullptr) return (void)lines_.erase(line);
    if (!line->heart || line->node != beat->node) {
      line->node = beat->node;
      line->heart = find(beat->node);
    }
    const int64_t now = nanoseconds(Clock::now());
    const bool stands = line->heart && line->heart->stands;
    if (stands) {
      line->heart->heard = now;
      estimate_offset(*line, *beat, now);
    }
    line->channel->send(
        encode(Echo{.sequence = beat->sequence, .sent = beat->sent, .coordinator = now, .stands = stands}));
  }

  // A beat tells the sender's clock when it left. Its way took at least nothing: the smallest difference seen is the
  // best estimate of the offset, off by the fastest way only.
  static void estimate_offset(Line& line, const Beat& beat, int64_t now) {
    const auto difference = static_cast<int64_t>(static_cast<uint64_t>(beat.sent) - static_cast<uint64_t>(now));
    Heart& heart = *line.heart;
    if (heart.has_offset && difference <= heart.offset) return;
    heart.offset = difference;
    heart.has_offset = true;
  }

  net::EventLoop loop_;  // the thread's
  std::list<Line> lines_;

  mutable std::mutex mutex_;  // what follows
  std::vector<std::unique_ptr<Channel>> newcomers_;
  std::map<NodeId, std::shared_ptr<Heart>> hearts_;
  bool ending_ = false;

  Fd wake_;
  std::thread thread_;
};

HeartbeatServer::HeartbeatServer() : impl_(std::make_unique<Impl>()) {}
HeartbeatServer::~HeartbeatServer() = default;

void HeartbeatServer::adopt(std::unique_ptr<Channel> channel) { impl_->adopt(std::move(channel)); }
void HeartbeatServer::forget(NodeId node) { impl_->set_stands(node, false); }
void HeartbeatServer::admit(NodeId node) { impl_->set_stands(node, true); }

std::optional<TimePoint> HeartbeatServer::heard(NodeId node) const {
  auto heart = impl_->find(node);
  const int64_t heard = heart ? heart->heard.load() : 0;
  if (heard == 0) return std::nullopt;
  return TimePoint(Duration(heard));
}

std::optional<Duration> HeartbeatServer::clock_offset(NodeId node) const {
  auto heart = impl_->find(node);
  if (!heart || !heart->has_offset) return std::nullopt;
  return Duration(heart->offset);
}

}  // namespace muster::rendezvous
