#include "muster/rendezvous/channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "muster/base/strings.h"
#include "muster/net/socket.h"
#include "muster/rendezvous/channel_impl.h"

namespace muster::rendezvous {
namespace {

constexpr size_t kReadSize = 64 << 10;
constexpr size_t kLargeUnit = kReadSize / 2;    // larger ones are gathered where they are wanted, not copied there
constexpr size_t kLargeReadSize = 256 << 10;    // of such a one, at a time
constexpr size_t kKeptCapacity = 64 << 10;      // of a send buffer that is empty again
constexpr size_t kDiscardedAtMost = 256 << 20;  // more is never in a socket

}  // namespace

ChannelImpl::ChannelImpl(net::EventLoop& loop, Fd socket, const net::Address& peer, const Options& options,
                         Handlers handlers, Side side, Other other)
    : loop_(&loop),
      socket_(std::move(socket)),
      peer_(peer),
      max_message_(options.max_message),
      max_unsent_(options.max_unsent),
      link_(std::make_shared<Link>(Link{std::move(handlers)})),
      other_(std::move(other)),
      sealed_token_(options.sealed_token),
      greeting_(options.greeting),
      job_(options.token.job()),
      handshake_(std::make_unique<Handshake>(options.token, options.purpose, options.keys)),
      state_(side == Side::kClient ? State::kServerHello : State::kClientHello),
      purpose_(options.purpose) {
  watch();
  if (options.handshake_timeout > Duration::zero()) {
    timer_ = loop.call_after(options.handshake_timeout, [this, timeout = options.handshake_timeout] {
      fail({ErrorKind::kTimeout,
            fmt::format("{} did not finish the handshake within {}", name(), seconds_text(timeout)),
            {}});
    });
  }
  if (side == Side::kClient) {
    out_ = handshake_->call();
    flush();
  }
}

ChannelImpl::~ChannelImpl() {
  if (link_) link_->alive = false;
  if (!socket_) return;
  if (loop_ != nullptr) {
    loop_->cancel(timer_);
    loop_->unwatch(socket_.get());
  }
  // Closing a socket with something unread in it resets the connection, and the peer may lose our last message.
  if (is_open()) ::recv(socket_.get(), nullptr, kDiscardedAtMost, MSG_TRUNC | MSG_DONTWAIT);
}

void ChannelImpl::already_read(std::string_view bytes) {
  if (bytes.empty()) return;
  inbox_ = bytes;
  held_ = true;
  schedule();
}

const net::Address& ChannelImpl::local() const {
  if (local_.length == 0 && socket_) {
    if (auto address = net::local_address(socket_.get())) local_ = *address;
  }
  return local_;
}

Fd ChannelImpl::share_socket() const {
  return Fd(socket_ ? ::fcntl(socket_.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1);
}

void ChannelImpl::limit_silence(Duration longest) {
  const auto time = static_cast<unsigned>(std::chrono::ceil<std::chrono::milliseconds>(longest).count());
  if (socket_) ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &time, sizeof time);
}

// --- reading ------------------------------------------------------------------------------------------------------

bool ChannelImpl::reading() const {
  if (state_ == State::kClosed || loop_ == nullptr) return false;
  return state_ != State::kOpen || (!paused_ && link_->handlers.received);
}

void ChannelImpl::watch() {
  interest_ = EPOLLIN;
  loop_->watch(socket_.get(), interest_, [this](uint32_t events) { handle_io(events); });
}

void ChannelImpl::update_interest() {
  if (loop_ == nullptr || state_ == State::kClosed) return;
  uint32_t wanted = 0;
  if (reading()) wanted |= EPOLLIN;
  if (blocked_) wanted |= EPOLLOUT;
  if (!loop_->watches(socket_.get())) {
    if (wanted == 0) return;
    watch();
  }
  if (wanted == interest_) return;
  interest_ = wanted;
  loop_->rearm(socket_.get(), interest_);
}

void ChannelImpl::handle_io(uint32_t events) {
  std::shared_ptr<Link> link = link_;
  if ((events & EPOLLOUT) != 0) {
    flush_and_tell(unsent() > 0);
    if (!link->alive) return;
  }
  if ((events & ~uint32_t{EPOLLOUT}) == 0) return;
  if (reading()) {
    read_some();
  } else if ((events & (EPOLLHUP | EPOLLERR)) != 0 && state_ != State::kClosed) {
    // These are told whether one asks or not. The end is found when reading goes on.
    loop_->unwatch(socket_.get());
    interest_ = 0;
  }
}

// One system call; the loop comes again while there is more.
void ChannelImpl::read_some() {
  if (held_) return consume_inbox();
  if (!inbox_.empty()) {
    std::optional<size_t> unit = unit_size(inbox_);
    if (unit && *unit > kLargeUnit) return read_into_inbox(*unit);
  }
  // Small messages are decrypted and handed on where they were read, without an allocation.
  std::array<char, kReadSize> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled by recv
  size_t kept = inbox_.copy(buffer.data(), kLargeUnit);
  // A stranger's first bytes may be for somebody else, who reads the rest.
  size_t limit = state_ == State::kClientHello ? kClientHelloSize : buffer.size();
  ssize_t size = ::recv(socket_.get(), &buffer[kept], limit - kept, MSG_DONTWAIT);
  if (size > 0) {
    inbox_.clear();
    return consume(buffer.data(), kept + static_cast<size_t>(size));
  }
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  ended_orderly_ = size == 0 && kept == 0 && is_open() && !was_reset_;
  fail(lost(size == 0 ? 0 : errno));
}

void ChannelImpl::read_into_inbox(size_t unit) {
  size_t kept = inbox_.size();
  inbox_.reserve(unit);
  inbox_.resize(std::min(unit, kept + kLargeReadSize));
  ssize_t size = ::recv(socket_.get(), &inbox_[kept], inbox_.size() - kept, MSG_DONTWAIT);
  int error = errno;
  inbox_.resize(kept + static_cast<size_t>(std::max<ssize_t>(size, 0)));
  if (inbox_.size() == unit) return consume_inbox();
  if (size > 0 || (size < 0 && (error == EAGAIN || error == EINTR))) return;
  fail(lost(size == 0 ? 0 : error));
}

void ChannelImpl::consume_inbox() {
  std::string bytes = std::move(inbox_);
  inbox_.clear();
  held_ = false;
  consume(bytes.data(), bytes.size());
}

// Hands on every whole unit (frame) and keeps the rest. The channel may be gone afterwards, or another thread's.
void ChannelImpl::consume(char* bytes, size_t size) {
  std::shared_ptr<Link> link = link_;
  rest_ = {bytes, size};
  consuming_ = true;
  while (reading() && !rest_.empty()) {
    if (other_ && state_ == State::kClientHello && static_cast<unsigned char>(rest_[0]) != kFirstByte)
      return hand_over(std::move(socket_), rest_);
    std::optional<size_t> unit = unit_size(rest_);
    if (!unit) {
      if (state_ != State::kOpen) return fail_handshake(Verdict::kNotMuster);
      return fail(peer_error(fmt::format("{} sent a frame of {} bytes; at most {} were expected", name(),
                                         frame_size(rest_), max_message_ + kSealSize)));
    }
    if (rest_.size() < *unit) break;
    char* begin = bytes + (rest_.data() - bytes);
    rest_.remove_prefix(*unit);
    handle_unit(begin, *unit);
    if (!link->alive || state_ == State::kClosed) return;
  }
  keep_rest();
  held_ = !reading() && !inbox_.empty();
  update_interest();
}

void ChannelImpl::keep_rest() {
  if (!consuming_) return;
  consuming_ = false;
  inbox_.assign(rest_);
}

void ChannelImpl::handle_message(char* sealed, size_t size) {
  std::optional<std::string_view> message = in_stream_.open(sealed, size);
  if (!message)
    return fail(peer_error(fmt::format("a message of {} was changed on its way", name()), "is there a broken proxy?"));
  std::shared_ptr<Link> link = link_;
  link->handlers.received(*message);
}

void ChannelImpl::hand_over(Fd socket, std::string_view bytes) {
  loop_->cancel(timer_);
  loop_->unwatch(socket.get());
  state_ = State::kClosed;
  consuming_ = false;
  Other other = std::move(other_);
  other(std::move(socket), bytes);
}

// --- writing ------------------------------------------------------------------------------------------------------

void ChannelImpl::send(std::string_view message) {
  if (state_ == State::kClosed || write_failed_ || error_) return;
  if (unsent() + message.size() > max_unsent_)
    return fail_later(
        {ErrorKind::kTimeout, fmt::format("{} does not read: {} bytes are waiting for it", name(), unsent()), {}});
  if (state_ != State::kOpen) {
    early_.emplace_back(message);
    early_size_ += message.size();
    return;
  }
  bool idle = unsent() == 0;  // if not, it is blocked, or will be flushed at the end of what goes on
  out_stream_.seal(message, out_);
  if (idle) flush();
}

void ChannelImpl::flush() {
  blocked_ = false;
  while (out_sent_ < out_.size()) {
    ssize_t size = ::send(socket_.get(), &out_[out_sent_], out_.size() - out_sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size >= 0) {
      out_sent_ += static_cast<size_t>(size);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) {
      blocked_ = true;
      break;
    }
    // The peer has closed. What it said before may still be unread, and reading finds the end after it.
    write_failed_ = true;
    was_reset_ = errno != EPIPE;
    if (errno != EPIPE && errno != ECONNRESET) fail_later(lost(errno));
    out_sent_ = out_.size();
  }
  if (out_sent_ == out_.size()) {
    out_.clear();
    out_sent_ = 0;
    if (out_.capacity() > kKeptCapacity) out_.shrink_to_fit();
  } else if (out_sent_ > out_.size() / 2) {
    out_.erase(0, out_sent_);
    out_sent_ = 0;
  }
  update_interest();
}

// The channel may be gone afterwards.
void ChannelImpl::flush_and_tell(bool was_told_unsent) {
  std::shared_ptr<Link> link = link_;
  flush();
  if (was_told_unsent && unsent() == 0 && is_open() && !write_failed_ && link->handlers.drained)
    link->handlers.drained();
}

// Before closing; lost when it does not fit, which it does. Closing with unread bytes would reset the connection, and
// the peer might lose the frame.
void ChannelImpl::send_last(std::string_view frame) {
  ::recv(socket_.get(), nullptr, kDiscardedAtMost, MSG_TRUNC | MSG_DONTWAIT);
  [[maybe_unused]] ssize_t ignored = ::send(socket_.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// --- ending and moving --------------------------------------------------------------------------------------------

void ChannelImpl::fail(Error why) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  loop_->cancel(timer_);
  loop_->unwatch(socket_.get());
  socket_.reset();
  handshake_.reset();
  consuming_ = false;
  out_.clear();
  out_sent_ = early_size_ = 0;
  error_ = std::move(why);
  std::shared_ptr<Link> link = link_;
  Error told = *error_;
  if (link->handlers.closed) link->handlers.closed(told);
}

void ChannelImpl::fail_later(Error why) {
  error_ = std::move(why);
  schedule();
}

void ChannelImpl::schedule() {
  if (loop_ == nullptr || link_->scheduled) return;
  link_->scheduled = true;
  loop_->defer([this, link = link_] {
    if (link->alive) run_scheduled();
  });
}

void ChannelImpl::run_scheduled() {
  std::shared_ptr<Link> link = link_;
  link->scheduled = false;
  if (error_ && state_ == State::kClosed) {  // ended before these handlers came
    Error told = *error_;
    if (link->handlers.closed) link->handlers.closed(told);
  } else if (error_) {
    fail(std::move(*error_));
  } else {
    if (held_ && reading()) consume_inbox();
    if (link->alive && is_open()) flush_and_tell(unsent() > 0);
  }
}

void ChannelImpl::pause(bool paused) {
  paused_ = paused;
  update_interest();
  if (!paused && held_) schedule();
}

void ChannelImpl::detach() {
  MUSTER_CHECK(state_ == State::kOpen || state_ == State::kClosed);
  if (loop_ == nullptr) return;
  keep_rest();
  if (socket_) loop_->unwatch(socket_.get());
  loop_ = nullptr;
  link_->alive = false;
  link_.reset();
}

void ChannelImpl::resume_on(net::EventLoop& loop, Handlers handlers) {
  MUSTER_CHECK(loop_ == nullptr || loop_ == &loop);
  keep_rest();
  if (link_) link_->alive = false;
  link_ = std::make_shared<Link>(Link{std::move(handlers)});
  loop_ = &loop;
  held_ = !inbox_.empty();
  schedule();
}

// Why the connection is no more: the errno that told, 0 for its proper end.
Error ChannelImpl::lost(int error) const {
  const char* when = state_ == State::kOpen ? "" : " during the handshake";
  if (error == 0) return peer_error(fmt::format("connection closed by {}{}", name(), when));
  if (error == ECONNRESET) return peer_error(fmt::format("connection closed by {}{} (reset)", name(), when));
  // The network's doing: the peer may not know.
  return {ErrorKind::kSystem, fmt::format("connection with {} lost{}: {}", name(), when, std::strerror(error)), {}};
}

std::string ChannelImpl::name() const { return peer_.length == 0 ? "the peer" : peer_.text(); }

// --- Channel ------------------------------------------------------------------------------------------------------

std::unique_ptr<Channel> Channel::client(net::EventLoop& loop, Fd socket, const net::Address& peer,
                                         const Options& options, Handlers handlers) {
  return std::make_unique<ChannelImpl>(loop, std::move(socket), peer, options, std::move(handlers),
                                       ChannelImpl::Side::kClient);
}

std::unique_ptr<Channel> Channel::server(net::EventLoop& loop, Fd socket, const net::Address& peer,
                                         const Options& options, Handlers handlers, std::string_view first_bytes) {
  auto channel = std::make_unique<ChannelImpl>(loop, std::move(socket), peer, options, std::move(handlers),
                                               ChannelImpl::Side::kServer);
  channel->already_read(first_bytes);
  return channel;
}

}  // namespace muster::rendezvous
