#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "muster/store/wire.h"

namespace muster::store {

class Waiter;

// The value of a key, the queue with the same name, and the clients that wait for or watch it. Exists while one of
// these exists.
struct Entry {
  struct Node;  // one registration of a Waiter
  struct Extras {
    std::deque<std::string> queue;
    size_t promised = 0;  // items that are promised to clients
    std::vector<Waiter*> watchers;
  };

  bool has_queue() const { return extras && !extras->queue.empty(); }
  bool has_free_item() const { return extras && extras->queue.size() > extras->promised; }
  bool present() const { return has_value || has_queue(); }

  std::string value;
  Node* first = nullptr;  // waiters, longest waiting first
  Node* last = nullptr;
  std::unique_ptr<Extras> extras;
  bool has_value = false;
};
using Slot = std::pair<const std::string, Entry>;

struct Entry::Node {
  Waiter* waiter = nullptr;
  Slot* slot = nullptr;  // null after the key has come
  Node* previous = nullptr;
  Node* next = nullptr;
};

// A client as the table sees it: at most one wait (WAIT or BARRIER) at a time, and any number of watches.
// Must be given to Table::forget() before it is destroyed.
class Waiter {
 public:
  bool waiting() const { return missing_ > 0; }

 protected:
  Waiter() = default;
  ~Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

 private:
  friend class Table;
  Entry::Node one_;                       // most waits are for one key
  std::unique_ptr<Entry::Node[]> many_;   // registrations of a wait for several
  uint32_t registered_ = 0;               // nodes in use
  uint32_t missing_ = 0;                  // keys of these that have not come
  std::unique_ptr<std::string> promise_;  // the queue from which it may pop an item until its next request
  bool promise_is_old_ = false;
  std::unique_ptr<std::vector<Slot*>> watched_;
};

// The store's keys, queues and waiting clients: all semantics, no I/O, no clock. One thread.
class Table {
 public:
  // Called from inside the operations below; must not call the table back.
  class Observer {
   public:
    // Everything that the waiter waited for has come (or the barrier is complete). It no longer waits.
    virtual void released(Waiter& waiter) = 0;
    // A key that the waiter watches has changed.
    virtual void changed(Waiter& watcher, Change change, std::string_view key, std::string_view old_value,
                         std::string_view new_value) = 0;

   protected:
    ~Observer() = default;
  };

  explicit Table(Observer& observer) : observer_(observer) {}
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  void set(std::string_view key, std::string_view value);
  void append(std::string_view key, std::string_view bytes);
  // Stores `desired` if the value equals `expected` (an absent key equals an empty one). Returns the resulting value.
  // If the key is absent and nothing was stored, returns `expected`, as PyTorch does.
  std::string_view compare_set(std::string_view key, std::string_view expected, std::string_view desired);
  const std::string* get(std::string_view key) const;
  // Adds to a decimal text as strtoll() reads it, wrapping around. Changes nothing if it is not a number.
  std::optional<int64_t> add(std::string_view key, int64_t delta);
  bool remove(std::string_view key);

  // Queues and keys have separate names: a name may be a key and a queue. An empty queue does not exist. PyTorch's
  // blocking pop is two requests, WAIT and QUEUE_POP. A WAIT for one queue promises its client an item, so that no
  // other client can pop it, or end its own wait, between the two requests. A push releases the client that has waited
  // longest; if that client does not pop next, the push releases the following one.
  void push(std::string_view key, std::string_view bytes);
  std::optional<std::string> pop(std::string_view key);  // nothing if all items are promised
  size_t queue_size(std::string_view key) const;

  // The number of keys, and all keys in no particular order.
  size_t size() const { return values_; }
  void for_each_key(const std::function<void(std::string_view)>& visit) const;

  // Keys with a value and queues with an item are present.
  bool has_all(const StringList& keys) const;
  // True: all are present. False: `waiter` is released when each absent one has come, even if only for a moment.
  // Replaces a wait that is still pending.
  bool wait(Waiter& waiter, const StringList& keys);
  // Counts one arrival at the key. True: complete, everyone waiting is released. False: `waiter` waits. Nothing: the
  // key holds no number.
  std::optional<bool> barrier(Waiter& waiter, std::string_view key, int64_t world_size);
  void cancel(Waiter& waiter);
  // Call it for each request before it is executed. If the client does not pop the item that was promised to it, the
  // next client gets the promise.
  void next_request(Waiter& waiter, const Request& request) {
    if (waiter.promise_) [[unlikely]]
      settle_promise(waiter, &request);
  }
  bool has_promises() const { return !promised_to_.empty(); }
  // Takes back the promises that already existed at the last call, so that a client that waited for a queue and does
  // nothing more does not keep its items for ever.
  void expire_promises();

  void watch(Waiter& watcher, std::string_view key);
  // The client is gone.
  void forget(Waiter& waiter);

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const { return std::hash<std::string_view>{}(key); }
  };
  using Map = std::unordered_map<std::string, Entry, Hash, std::equal_to<>>;

  Slot& slot(std::string_view key);
  const Entry* find(std::string_view key) const;
  void store(Slot& slot, std::string_view value);
  void release_all(Entry& entry);
  void release_one(Slot& slot);
  bool arrived(Entry::Node& node);
  void notify(Slot& slot, Change change, std::string_view old_value);
  void drop_if_unused(Slot& slot);
  void promise(Waiter& waiter, Slot& slot);
  void settle_promise(Waiter& waiter, const Request* request);
  static void link(Waiter& waiter, Entry::Node& node, Slot& slot);
  static void unlink(Entry::Node& node);

  Observer& observer_;
  Map map_;
  Slot* last_ = nullptr;  // the last result of slot(): streams, counters and barriers often ask for it again
  size_t values_ = 0;
  std::vector<Waiter*> promised_to_;
};

}  // namespace muster::store
