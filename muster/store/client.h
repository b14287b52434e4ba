#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/fd.h"
#include "muster/base/result.h"

namespace muster::store {

enum class Op : uint8_t;  // of the protocol: wire.h

using Keys = std::span<const std::string>;

// One blocking connection to a store: ours, or one of PyTorch 2.5 or later (barrier: 2.12, list_keys: 2.10, queues: 2.8
// and libuv). Keys and values are the same as those of PyTorch's TCPStore on the same server. Not for two threads at
// once.
//
// Every call ends by its deadline. Errors: kTimeout, the deadline passed; kPeer, the server closed the connection or
// broke the protocol; kUsage, an argument the server would refuse (nothing was sent). A timeout while waiting for a key
// or a barrier leaves the connection usable; after any other timeout and after kPeer it is not, and every further call
// fails at once.
class Client {
 public:
  // Tries again until the deadline, because the server may not be up yet.
  static Result<Client> connect(const std::string& host, uint16_t port, Deadline deadline);

  Result<void> set(std::string_view key, std::string_view value, Deadline deadline);
  Result<void> append(std::string_view key, std::string_view bytes, Deadline deadline);
  // Waits for the key.
  Result<std::string> get(std::string_view key, Deadline deadline);
  // An absent key counts as 0; an amount of 0 reads a counter without waiting (and creates it).
  Result<int64_t> add(std::string_view key, int64_t amount, Deadline deadline);
  // The resulting value: `desired` if it was stored. An absent key equals an empty `expected`.
  Result<std::string> compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                                  Deadline deadline);
  // Whether all keys exist.
  Result<bool> check(Keys keys, Deadline deadline);
  Result<void> wait(Keys keys, Deadline deadline);
  // Whether the key existed.
  Result<bool> delete_key(std::string_view key, Deadline deadline);
  // The number of keys in the whole store, without queues.
  Result<int64_t> num_keys(Deadline deadline);
  // Without the keys that PyTorch's client hides too: those without a leading '/' on the server.
  Result<std::vector<std::string>> list_keys(Deadline deadline);

  // Waits for all keys. The values are in the order of the keys.
  Result<std::vector<std::string>> multi_get(Keys keys, Deadline deadline);
  Result<void> multi_set(std::span<const std::pair<std::string, std::string>> pairs, Deadline deadline);

  Result<void> queue_push(std::string_view key, std::string_view bytes, Deadline deadline);
  // Waits for an item.
  Result<std::string> queue_pop(std::string_view key, Deadline deadline);
  // Nothing if the queue is empty.
  Result<std::optional<std::string>> queue_try_pop(std::string_view key, Deadline deadline);
  Result<int64_t> queue_len(std::string_view key, Deadline deadline);

  // Blocks until `world_size` calls have been made for this key. The count is never reset.
  Result<void> barrier(std::string_view key, int64_t world_size, Deadline deadline);
  // One round trip to the server.
  Result<void> ping(Deadline deadline);

 private:
  explicit Client(Fd fd, std::string server) : fd_(std::move(fd)), server_(std::move(server)) {}

  Result<void> begin(Op op);
  Result<void> put_key(std::string_view key);
  Result<void> put_value(std::string_view value);
  Result<void> put_keys(Op op, Keys keys);
  Result<void> send(Deadline deadline);
  Result<void> receive(void* into, size_t size, Deadline deadline, std::string_view waiting_for);
  template <typename T>
  Result<T> receive_number(Deadline deadline);
  Result<std::string> receive_string(Deadline deadline);
  Result<void> request(Op op, std::string_view key, Deadline deadline);
  Result<void> request_with_value(Op op, std::string_view key, std::string_view value, Deadline deadline);
  Result<void> await_release(std::string_view what, Deadline deadline);
  Result<void> cancel_wait();
  Error broken(ErrorKind kind, std::string what);

  Fd fd_;
  std::string server_;    // "host:port", for messages
  std::string out_;       // the request being built
  std::string unusable_;  // why; empty: it is usable
  uint32_t next_nonce_ = 1;
};

}  // namespace muster::store
