#include "muster/output/uplink.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "muster/base/log.h"

namespace muster::output {
namespace {

constexpr size_t kChunkSize = 64 << 10;
// A line longer than this travels in pieces.
constexpr size_t kLongestLine = 256 << 10;
constexpr auto kLastConnectTime = std::chrono::seconds(10);  // when the job is over
constexpr auto kCheckPeriod = std::chrono::milliseconds(250);
// A launcher that takes the connection and closes it is not asked without a pause.
constexpr auto kAgainPause = std::chrono::milliseconds(100);
constexpr auto kLivePeriod = std::chrono::milliseconds(50);  // more often nobody sees
constexpr size_t kLongestLiveLine = 4096;

}  // namespace

Uplink::Uplink(net::EventLoop& loop) : loop_(loop), streams_{Stream(*this, 0), Stream(*this, 1)} {}

Uplink::~Uplink() {
  loop_.cancel(live_timer_);
  loop_.cancel(again_timer_);
  loop_.cancel(check_timer_);
}

void Uplink::connect(const net::Address& launcher, const job::Token& token, rendezvous::NodeId node, Duration patience,
                     Duration connect_time) {
  target_ = {launcher, token, node, patience, connect_time};
  loop_.cancel(std::exchange(again_timer_, 0));
  connect();
}

void Uplink::connect() {
  rendezvous::Channel::Options options;
  options.token = target_.token;
  options.purpose = rendezvous::Purpose::kOutput;
  const Duration time = over_ ? Duration(kLastConnectTime) : target_.connect_time;
  connector_ = rendezvous::Connector::start(loop_, {target_.launcher}, options, time, Deadline::in(time),
                                            [this](Result<std::unique_ptr<rendezvous::Channel>> channel) {
                                              if (!channel) return not_connected(channel.error());
                                              opened(*std::move(channel));
                                            });
}

// What the workers write is spooled meanwhile. The user is told on the way by which the launcher has started this agent.
void Uplink::not_connected(const Error& why) {
  if (over_) return give_up();
  const std::string text =
      fmt::format("{}cannot connect to the launcher to send output: {}; retrying, output is kept in a temporary file\n",
                  log_prefix(LogLevel::kWarning), why.message);
  if (!std::exchange(warned_, true)) (void)write_all(STDERR_FILENO, text.data(), text.size());
  connect_again();
}

void Uplink::opened(std::unique_ptr<rendezvous::Channel> channel) {
  channel_ = std::move(channel);
  channel_->resume_on(
      loop_,
      {.opened = {},
       .received = [this](std::string_view bytes) { received(bytes); },
       .closed = [this](const Error&) { loop_.defer([this, orderly = channel_->ended_orderly()] { lost(orderly); }); },
       .drained = [this] { update(); }});
  channel_->send(rendezvous::encode(rendezvous::OutputHello{target_.node}));
  expect_answer();
  if (std::exchange(was_connected_, true) && on_reconnected_) on_reconnected_();
  update();
}

void Uplink::received(std::string_view bytes) {
  auto message = rendezvous::decode(bytes);
  const auto* taken = message ? std::get_if<rendezvous::OutputTaken>(&*message) : nullptr;
  if (taken == nullptr) return;
  expect_answer();
  for (; acknowledged_ < taken->chunks && !kept_.empty(); ++acknowledged_) {
    kept_bytes_ -= kept_.front().size();
    kept_.pop_front();
  }
  if (!std::exchange(ready_, true))
    for (const std::string& chunk : kept_) channel_->send(chunk);
  update();
}

void Uplink::lost(bool closed_by_launcher) {
  if (gone_ || !channel_) return;
  if (over_ && closed_by_launcher) return give_up();
  connect_again();
}

void Uplink::connect_again() {
  channel_.reset();
  ready_ = false;
  shown_.clear();
  update();
  again_timer_ = loop_.call_after(kAgainPause, [this] {
    again_timer_ = 0;
    connect();
  });
}

void Uplink::give_up() {
  gone_ = true;
  loop_.cancel(again_timer_);
  connector_.reset();
  channel_.reset();
  ready_ = false;
  kept_.clear();
  update();
}

// Whatever changes how much the outlets take, or whether everything is gone, ends here.
void Uplink::update() {
  wake_soon();
  if (on_idle_ && idle()) on_idle_();
}

bool Uplink::has_room() const { return gone_ || (ready_ && kept_bytes_ < rendezvous::kOutputWindow); }

// Once in each turn of the loop, so that other events are handled in between.
void Uplink::wake_soon() {
  const bool wanted = streams_[0].wanted() || streams_[1].wanted();
  if (!wanted || !has_room() || std::exchange(waking_, true)) return;
  loop_.defer([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    waking_ = false;
    for (const Stream& stream : streams_) stream.wake();
    wake_soon();
  });
}

ssize_t Uplink::take(uint8_t stream, std::string_view bytes) {
  if (!has_room()) {
    errno = EAGAIN;
    return -1;
  }
  bytes = bytes.substr(0, kChunkSize);
  if (!gone_) {
    send_lines(stream, bytes);
  } else if (!was_connected_ && stream == rendezvous::Chunk::kStderr) {
    // Only the process that started this one can be told why there is no connection.
    (void)write_all(STDERR_FILENO, bytes.data(), bytes.size());
  }
  return static_cast<ssize_t>(bytes.size());
}

void Uplink::send_lines(uint8_t stream, std::string_view bytes) {
  std::string& line = streams_[stream].line;
  const size_t end = bytes.rfind('\n');
  if (end == std::string_view::npos && line.size() + bytes.size() < kLongestLine) {
    line.append(bytes);
    return;
  }
  const size_t whole = end == std::string_view::npos ? bytes.size() : end + 1;
  rendezvous::Chunk chunk{.stream = stream, .bytes = std::move(line)};
  chunk.bytes.append(bytes.substr(0, whole));
  line.assign(bytes.substr(whole));
  send(chunk);
}

// Kept until it is acknowledged.
void Uplink::send(const rendezvous::Chunk& chunk) {
  if (gone_) return;
  if (kept_.empty()) expect_answer();
  kept_.push_back(rendezvous::encode(chunk));
  kept_bytes_ += kept_.back().size();
  if (ready_) channel_->send(kept_.back());
}

// From now on.
void Uplink::expect_answer() {
  checked_ = Clock::now();
  answer_due_ = checked_ + target_.patience;
  if (check_timer_ == 0) check_timer_ = loop_.call_after(kCheckPeriod, [this] { check_answer(); });
}

// A connection that swallows everything is made anew.
void Uplink::check_answer() {
  check_timer_ = 0;
  if (!channel_ || (ready_ && kept_.empty())) return;
  const TimePoint now = Clock::now();
  // This process stood still: the answer may be there, unread.
  if (now - std::exchange(checked_, now) > 4 * kCheckPeriod) answer_due_ = std::max(answer_due_, now + kCheckPeriod);
  if (now >= answer_due_) return connect_again();
  check_timer_ = loop_.call_after(kCheckPeriod, [this] { check_answer(); });
}

void Uplink::set_live_line(std::string text) {
  if (text.size() > kLongestLiveLine) text.resize(kLongestLiveLine);
  live_line_ = std::move(text);
  if (live_line_.empty()) {  // a line that is over must not stand below the one that replaces it
    loop_.cancel(live_timer_);
    return send_live_line();
  }
  if (live_timer_ == 0) live_timer_ = loop_.call_after(kLivePeriod, [this] { send_live_line(); });
}

// One that nobody has room for is not worth keeping.
void Uplink::send_live_line() {
  live_timer_ = 0;
  if (!ready_ || !channel_->is_open() || live_line_ == shown_) return;
  if (!live_line_.empty() && channel_->unsent() > 0) return;
  shown_ = live_line_;
  channel_->send(rendezvous::encode(rendezvous::Chunk{rendezvous::Chunk::kLiveLine, shown_}));
}

void Uplink::send_event(std::string_view line) {
  send(rendezvous::Chunk{rendezvous::Chunk::kEvents, std::string(line)});
}

void Uplink::flush() {
  for (uint8_t stream : {0, 1})
    if (std::string& line = streams_[stream].line; !line.empty())
      send(rendezvous::Chunk{stream, std::exchange(line, {})});
}

void Uplink::end() {
  flush();
  if (!std::exchange(ended_, true)) send(rendezvous::Chunk{rendezvous::Chunk::kEnd, {}});
}

bool Uplink::idle() const { return gone_ || (ready_ && channel_->unsent() == 0 && (!ended_ || kept_.empty())); }

}  // namespace muster::output
