#include "muster/net/batch_send.h"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "muster/base/fd.h"

namespace muster::net {
namespace {

constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
constexpr size_t kMostAtOnce = size_t{1} << 30;  // a request's length has 32 bits
constexpr unsigned kEntries = 256;

void send_one(BatchSender::Item& item) {
  ssize_t sent;
  do {
    sent = ::send(item.fd, item.data, item.size, kFlags);
  } while (sent < 0 && errno == EINTR);
  item.result = sent < 0 ? -errno : sent;
}

// A mapped area of the ring's descriptor.
class Mapping {
 public:
  Mapping(int fd, size_t size, uint64_t offset) : size_(size) {
    at_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, static_cast<off_t>(offset));
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

// The little of io_uring that is needed: fill the submission queue, enter the kernel, read as many completions. A send
// that does not block completes before the call returns, so nothing is ever in flight between two calls.
class BatchSender::Ring {
 public:
  static std::unique_ptr<Ring> open() {
    io_uring_params params{};
    Fd fd(static_cast<int>(::syscall(SYS_io_uring_setup, kEntries, &params)));
    if (!fd) return nullptr;
    std::unique_ptr<Ring> ring(new Ring(std::move(fd), params));
    return ring->submissions_ && ring->entries_ && ring->completions_ ? std::move(ring) : nullptr;
  }

  // At most kEntries. How many of them have a result now; fewer than all when the kernel took no more.
  size_t send(std::span<Item> items) {
    unsigned tail = *at(submissions_, params_.sq_off.tail);
    unsigned mask = *at(submissions_, params_.sq_off.ring_mask);
    unsigned* array = at(submissions_, params_.sq_off.array);
    for (size_t i = 0; i < items.size(); ++i, ++tail) {
      unsigned index = tail & mask;
      auto* entry = entries_.at<io_uring_sqe>(index * sizeof(io_uring_sqe));
      std::memset(entry, 0, sizeof *entry);
      entry->opcode = IORING_OP_SEND;
      entry->fd = items[i].fd;
      entry->addr = reinterpret_cast<uint64_t>(items[i].data);
      entry->len = static_cast<uint32_t>(std::min(items[i].size, kMostAtOnce));
      entry->msg_flags = kFlags;
      entry->user_data = i;
      array[index] = index;
    }
    std::atomic_ref(*at(submissions_, params_.sq_off.tail)).store(tail, std::memory_order_release);
    long taken;
    do {
      taken = ::syscall(SYS_io_uring_enter, fd_.get(), items.size(), 0, 0, nullptr, 0);
    } while (taken < 0 && errno == EINTR);
    return collect(items);
  }

 private:
  Ring(Fd fd, const io_uring_params& params)
      : fd_(std::move(fd)),
        params_(params),
        submissions_(fd_.get(), params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING),
        entries_(fd_.get(), params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES),
        completions_(fd_.get(), params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING) {}

  static unsigned* at(const Mapping& mapping, unsigned offset) { return mapping.at<unsigned>(offset); }

  size_t collect(std::span<Item> items) {
    unsigned head = *at(completions_, params_.cq_off.head);
    unsigned mask = *at(completions_, params_.cq_off.ring_mask);
    unsigned tail = std::atomic_ref(*at(completions_, params_.cq_off.tail)).load(std::memory_order_acquire);
    size_t done = 0;
    for (; head != tail; ++head, ++done) {
      auto* completion = completions_.at<io_uring_cqe>(params_.cq_off.cqes + (head & mask) * sizeof(io_uring_cqe));
      items[completion->user_data].result = completion->res;
    }
    std::atomic_ref(*at(completions_, params_.cq_off.head)).store(head, std::memory_order_release);
    return done;
  }

  Fd fd_;
  io_uring_params params_;
  Mapping submissions_;
  Mapping entries_;
  Mapping completions_;
};

BatchSender::BatchSender() = default;
BatchSender::~BatchSender() = default;

void BatchSender::send(std::span<Item> items) {
  if (items.size() > 1 && !ring_ && !refused_) {
    ring_ = Ring::open();
    refused_ = ring_ == nullptr;
  }
  while (items.size() > 1 && ring_) {
    std::span<Item> some = items.first(std::min<size_t>(items.size(), kEntries));
    constexpr ptrdiff_t kUnset = PTRDIFF_MIN;
    for (Item& item : some) item.result = kUnset;
    size_t done = ring_->send(some);
    bool unknown = std::any_of(some.begin(), some.end(), [](const Item& item) { return item.result == -EINVAL; });
    if (done < some.size() || unknown) {
      // A kernel that has rings but not this, or no memory for it now: what has no result yet is sent the plain way.
      ring_.reset();
      refused_ = true;
      for (Item& item : some)
        if (item.result == kUnset || item.result == -EINVAL) send_one(item);
    }
    items = items.subspan(some.size());
  }
  for (Item& item : items) send_one(item);
}

}  // namespace muster::net
