#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "muster/net/event_loop.h"

namespace muster::net {

// Receives and sends on many sockets through io_uring: one system call a wake-up of the loop takes the replies of the
// last one with it, waits, and brings what has come since. Beside the system calls this saves the switches to each
// receiver that a send() of its own wakes. Before it waits it lets others run who are about to send, and pauses (a
// tenth of a millisecond at most) in a stream of small messages that nobody awaits an answer to.
//
// Attached to its loop, which it outlives in no case; used from the loop's thread. Sockets must block: the kernel lets
// a request wait only there.
class Ring final : public EventLoop::Source {
 public:
  // Called from the loop. May receive, stop and close sockets.
  class Sink {
   public:
    // `more`: further calls follow without another receive(). Bytes, or the end of the stream (0), or minus errno;
    // neither -ENOBUFS nor -ECANCELED says anything about the socket. True: who sent it waits for an answer that is not
    // there yet.
    virtual bool ring_received(uint64_t id, int result, std::string_view bytes, bool more) = 0;
    // One result for each send() since the last call, in their order: bytes sent or minus errno, as of a call that does
    // not block.
    virtual void ring_sent(std::span<const ptrdiff_t> results) = 0;

   protected:
    ~Sink() = default;
  };

  // Nothing where the kernel has no such ring for us (it is too old, or a sandbox forbids it), or where the loop
  // already has one.
  static std::unique_ptr<Ring> open(EventLoop& loop, Sink& sink);
  ~Ring() override;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Receives until the sink hears that there is no more. `id` is below kIds.
  void receive(int socket, uint64_t id);
  // Ends a receive(); the sink hears of it.
  void stop(uint64_t id);
  // `data` stays where it is until the result is told. Goes with the next wait, or when the loop ends.
  void send(int socket, const void* data, size_t size);

  // Hands what has been asked for to the kernel now: before a descriptor is closed, whose number may come again.
  void submit();
  bool wait(int epoll, int timeout_ms) override;
  void dispatch() override;
  void finish() override;

  static constexpr uint64_t kIds = uint64_t{1} << 62;

 private:
  class Queues;
  class Buffers;
  struct Received {
    uint64_t id;
    int result;
    uint32_t flags;
  };

  Ring(EventLoop& loop, Sink& sink, std::unique_ptr<Queues> queues, std::unique_ptr<Buffers> buffers);
  void gather();
  void collect();
  void tell_sends();

  EventLoop& loop_;
  Sink& sink_;
  std::unique_ptr<Queues> queues_;
  std::unique_ptr<Buffers> buffers_;
  std::vector<ptrdiff_t> sends_;    // results: all was sent, unless a completion says otherwise
  std::vector<ptrdiff_t> told_;     // empty but for its memory, except in tell_sends()
  std::vector<Received> received_;  // collected, not yet told
  size_t crowd_ = 0;                // what the last turn has told: how many times,
  size_t volume_ = 0;               // and how many bytes
  bool awaited_ = false;            // and whether somebody waits for an answer to it
  int unanswered_ = 0;              // turns in a row of a stream that nobody awaits an answer to
  bool polling_ = false;            // the loop's epoll descriptor
  bool epoll_ready_ = false;
};

}  // namespace muster::net
