#include "muster/net/ring.h"

#include <linux/io_uring.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "muster/base/fd.h"

namespace muster::net {
namespace {

constexpr unsigned kSubmissions = 256;
constexpr unsigned kCompletions = 4096;  // more are kept by the kernel until there is room
constexpr unsigned kBuffers = 256;
constexpr unsigned kBufferSize = 8 << 10;
// Who sends little after little, and waits for no answer, does not notice that we look at it seldom.
constexpr int kUnansweredTurns = 4;
constexpr size_t kMuch = 256 << 10;              // in a turn
constexpr timespec kNap{0, 50'000};              // and what the kernel adds to every sleep, as much again
constexpr size_t kMostAtOnce = size_t{1} << 30;  // a request's length has 32 bits

// What a completion belongs to, in the two upper bits of its user data.
enum class Kind : uint8_t { kReceive, kSend, kPoll, kStop };
uint64_t tag(Kind kind, uint64_t id) { return (static_cast<uint64_t>(kind) << 62) | id; }
Kind kind_of(uint64_t tag) { return static_cast<Kind>(tag >> 62); }
uint64_t id_of(uint64_t tag) { return tag & (Ring::kIds - 1); }

// A mapped area: of the ring's descriptor, or without one of nothing but memory.
class Mapping {
 public:
  Mapping(int fd, size_t size, uint64_t offset) : size_(size) {
    int flags = fd >= 0 ? MAP_SHARED | MAP_POPULATE : MAP_PRIVATE | MAP_ANONYMOUS;
    at_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset));
  }
  ~Mapping() {
    if (*this) ::munmap(at_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  explicit operator bool() const { return at_ != MAP_FAILED; }
  template <typename T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(static_cast<char*>(at_) + offset);
  }

 private:
  void* at_;
  size_t size_;
};

}  // namespace

// The two queues between us and the kernel.
class Ring::Queues {
 public:
  static std::unique_ptr<Queues> open() {
    io_uring_params params{};
    // The kernel works for us only inside our own calls (Linux 6.1 and later).
    params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL |
                   IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
    params.cq_entries = kCompletions;
    Fd fd(static_cast<int>(::syscall(SYS_io_uring_setup, kSubmissions, &params)));
    constexpr unsigned kNeeded = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;
    if (!fd || (params.features & kNeeded) != kNeeded) return nullptr;
    std::unique_ptr<Queues> queues(new Queues(std::move(fd), params));
    if (!queues->submissions_ || !queues->entries_ || !queues->completions_) return nullptr;
    for (unsigned i = 0; i < params.sq_entries; ++i) queues->submissions_.at<unsigned>(params.sq_off.array)[i] = i;
    return queues;
  }

  int fd() const { return fd_.get(); }
  bool full() const { return pending_ == params_.sq_entries; }
  bool pending() const { return pending_ > 0; }

  // Only when not full.
  io_uring_sqe& add(uint8_t opcode, int fd, uint64_t user_data) {
    unsigned mask = *submissions_.at<unsigned>(params_.sq_off.ring_mask);
    auto* entry = entries_.at<io_uring_sqe>((tail_++ & mask) * sizeof(io_uring_sqe));
    ++pending_;
    std::memset(entry, 0, sizeof *entry);
    entry->opcode = opcode;
    entry->fd = fd;
    entry->user_data = user_data;
    return *entry;
  }

  // Submits and waits for a completion as long as epoll_wait() would. False: the kernel wants to be asked again, or
  // this is not the thread that opened the ring.
  bool enter(int timeout_ms) {
    std::atomic_ref(*submissions_.at<unsigned>(params_.sq_off.tail)).store(tail_, std::memory_order_release);
    __kernel_timespec time{timeout_ms / 1000, timeout_ms % 1000 * 1'000'000LL};
    io_uring_getevents_arg arg{};
    arg.sigmask_sz = _NSIG / 8;
    if (timeout_ms > 0) arg.ts = reinterpret_cast<uint64_t>(&time);
    long taken = ::syscall(SYS_io_uring_enter, fd_.get(), pending_, timeout_ms == 0 ? 0 : 1,
                           IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof arg);
    if (taken >= 0) pending_ -= static_cast<unsigned>(taken);
    return taken >= 0 || errno == ETIME || errno == EINTR;
  }

  template <typename Visit>
  void collect(Visit visit) {
    unsigned head = *completions_.at<unsigned>(params_.cq_off.head);
    unsigned mask = *completions_.at<unsigned>(params_.cq_off.ring_mask);
    unsigned tail = std::atomic_ref(*completions_.at<unsigned>(params_.cq_off.tail)).load(std::memory_order_acquire);
    for (; head != tail; ++head)
      visit(*completions_.at<io_uring_cqe>(params_.cq_off.cqes + (head & mask) * sizeof(io_uring_cqe)));
    std::atomic_ref(*completions_.at<unsigned>(params_.cq_off.head)).store(head, std::memory_order_release);
  }

 private:
  Queues(Fd fd, const io_uring_params& params)
      : fd_(std::move(fd)),
        params_(params),
        submissions_(fd_.get(), params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING),
        entries_(fd_.get(), params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES),
        completions_(fd_.get(), params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING) {}

  Fd fd_;
  io_uring_params params_;
  Mapping submissions_;
  Mapping entries_;
  Mapping completions_;
  unsigned tail_ = 0;
  unsigned pending_ = 0;  // added, not yet taken by the kernel
};

// Where the kernel puts what it receives; shared by all sockets, so that an idle one holds none.
class Ring::Buffers {
 public:
  static std::unique_ptr<Buffers> open(int ring) {
    std::unique_ptr<Buffers> buffers(new Buffers);
    if (!buffers->ring_ || !buffers->memory_) return nullptr;
    io_uring_buf_reg registration{};
    registration.ring_addr = reinterpret_cast<uint64_t>(buffers->ring_.at<char>(0));
    registration.ring_entries = kBuffers;
    if (::syscall(SYS_io_uring_register, ring, IORING_REGISTER_PBUF_RING, &registration, 1) != 0) return nullptr;
    for (unsigned i = 0; i < kBuffers; ++i) buffers->give(i);
    return buffers;
  }

  const char* at(unsigned index) const { return memory_.at<char>(size_t{index} * kBufferSize); }

  // The kernel may use it again.
  void give(unsigned index) {
    // Not io_uring_buf_ring::bufs, which lies elsewhere in C++ than in C.
    auto* buffer = ring_.at<io_uring_buf>((tail_++ % kBuffers) * sizeof(io_uring_buf));
    buffer->addr = reinterpret_cast<uint64_t>(at(index));
    buffer->len = kBufferSize;
    buffer->bid = static_cast<uint16_t>(index);
    std::atomic_ref(*ring_.at<uint16_t>(offsetof(io_uring_buf, resv))).store(tail_, std::memory_order_release);
  }

 private:
  Buffers() : ring_(-1, kBuffers * sizeof(io_uring_buf), 0), memory_(-1, size_t{kBuffers} * kBufferSize, 0) {}

  Mapping ring_;
  Mapping memory_;
  uint16_t tail_ = 0;
};

std::unique_ptr<Ring> Ring::open(EventLoop& loop, Sink& sink) {
  auto queues = Queues::open();
  if (!queues) return nullptr;
  auto buffers = Buffers::open(queues->fd());
  if (!buffers) return nullptr;
  std::unique_ptr<Ring> ring(new Ring(loop, sink, std::move(queues), std::move(buffers)));
  return loop.attach(*ring) ? std::move(ring) : nullptr;
}

Ring::Ring(EventLoop& loop, Sink& sink, std::unique_ptr<Queues> queues, std::unique_ptr<Buffers> buffers)
    : loop_(loop), sink_(sink), queues_(std::move(queues)), buffers_(std::move(buffers)) {}

Ring::~Ring() {
  loop_.detach(*this);
  queues_.reset();  // before the memory it receives into
}

void Ring::receive(int socket, uint64_t id) {
  if (queues_->full()) submit();
  io_uring_sqe& entry = queues_->add(IORING_OP_RECV, socket, tag(Kind::kReceive, id));
  entry.ioprio = IORING_RECV_MULTISHOT;
  entry.flags = IOSQE_BUFFER_SELECT;
}

void Ring::stop(uint64_t id) {
  if (queues_->full()) submit();
  io_uring_sqe& entry = queues_->add(IORING_OP_ASYNC_CANCEL, -1, tag(Kind::kStop, 0));
  entry.addr = tag(Kind::kReceive, id);
}

void Ring::send(int socket, const void* data, size_t size) {
  if (queues_->full()) submit();
  size = std::min(size, kMostAtOnce);
  io_uring_sqe& entry = queues_->add(IORING_OP_SEND, socket, tag(Kind::kSend, sends_.size()));
  // Tells us only of what was not sent as a whole, and never goes on after the call: no answer is a result as well.
  entry.flags = IOSQE_CQE_SKIP_SUCCESS;
  entry.msg_flags = MSG_NOSIGNAL | MSG_DONTWAIT | MSG_WAITALL;
  entry.addr = reinterpret_cast<uint64_t>(data);
  entry.len = static_cast<uint32_t>(size);
  sends_.push_back(static_cast<ptrdiff_t>(size));
}

void Ring::submit() {
  while (queues_->pending()) {
    bool done = queues_->enter(0);
    if (!done && errno != EAGAIN && errno != EBUSY) return;
    collect();
  }
}

bool Ring::wait(int epoll, int timeout_ms) {
  if (!polling_) {
    if (queues_->full()) submit();
    queues_->add(IORING_OP_POLL_ADD, epoll, tag(Kind::kPoll, 0)).poll32_events = POLLIN;
    polling_ = true;
  }
  bool something = !received_.empty() || epoll_ready_;
  if (!something) gather();
  bool done = queues_->enter(something ? 0 : timeout_ms);
  MUSTER_CHECK(done || errno == EAGAIN || errno == EBUSY);
  collect();
  submit();  // what the kernel had no memory for
  return std::exchange(epoll_ready_, false);
}

// Lets more come before the next wait, so that one wake-up is for many of them.
void Ring::gather() {
  const bool answered = !sends_.empty();
  const bool stream = !answered && !awaited_ && crowd_ > 0 && volume_ <= kMuch;
  unanswered_ = stream ? unanswered_ + 1 : 0;
  if (unanswered_ > kUnansweredTurns) {
    ::nanosleep(&kNap, nullptr);
  } else if (answered && crowd_ > 1) {
    ::sched_yield();  // where several had something to say, others are about to: they run now
  }
}

void Ring::collect() {
  queues_->collect([this](const io_uring_cqe& completion) {
    switch (kind_of(completion.user_data)) {
      case Kind::kReceive:
        received_.push_back({id_of(completion.user_data), completion.res, completion.flags});
        break;
      case Kind::kSend:
        sends_[id_of(completion.user_data)] = completion.res;
        break;
      case Kind::kPoll:
        polling_ = false;
        epoll_ready_ = true;
        break;
      case Kind::kStop:
        break;
    }
  });
}

void Ring::tell_sends() {
  if (sends_.empty()) return;
  told_.swap(sends_);
  sink_.ring_sent(told_);
  told_.clear();
}

void Ring::finish() {
  submit();
  tell_sends();
}

void Ring::dispatch() {
  tell_sends();
  volume_ = 0;
  awaited_ = false;
  for (size_t i = 0; i < received_.size(); ++i) {  // grows when the sink submits
    Received got = received_[i];
    volume_ += static_cast<size_t>(std::max(got.result, 0));
    bool buffered = (got.flags & IORING_CQE_F_BUFFER) != 0;
    unsigned index = got.flags >> IORING_CQE_BUFFER_SHIFT;
    std::string_view bytes;
    if (buffered && got.result > 0) bytes = {buffers_->at(index), static_cast<size_t>(got.result)};
    if (sink_.ring_received(got.id, got.result, bytes, (got.flags & IORING_CQE_F_MORE) != 0)) awaited_ = true;
    if (buffered) buffers_->give(index);
  }
  crowd_ = received_.size();
  received_.clear();
}

}  // namespace muster::net
