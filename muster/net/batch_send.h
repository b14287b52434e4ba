#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace muster::net {

// Sends on many sockets in one system call.
//
// Each send() wakes its receiver, and on a busy machine the receiver then often takes the sender's core before the next
// send(): a server that answers 50 clients in a row is switched out 25 times. Within one call it is not. So this goes
// through io_uring where the kernel lets us, and through one send() after the other where it does not (or where there
// is but one).
class BatchSender {
 public:
  struct Item {
    int fd;  // a non-blocking socket
    const void* data;
    size_t size;
    ptrdiff_t result = 0;  // bytes sent, or minus errno
  };

  BatchSender();
  ~BatchSender();
  BatchSender(const BatchSender&) = delete;
  BatchSender& operator=(const BatchSender&) = delete;

  // Never blocks. Every result is set; a short count is no error.
  void send(std::span<Item> items);

 private:
  class Ring;
  std::unique_ptr<Ring> ring_;  // opened when first needed
  bool refused_ = false;        // the kernel has none for us
};

}  // namespace muster::net
