#include "muster/store/table.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "muster/base/error.h"

namespace muster::store {
namespace {

constexpr size_t kKeepCapacity = 4096;  // a value's memory is given back when it shrinks from beyond this

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// As strtoll() with base 10: blanks, a sign, digits; what follows is ignored. Nothing when there is no digit or the
// number does not fit.
std::optional<int64_t> leading_number(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;  // which from_chars would take
  }
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

bool ends_a_wait(const Entry& entry) { return entry.has_value || entry.has_free_item(); }

}  // namespace

Slot& Table::slot(std::string_view key) {
  if (last_ == nullptr || last_->first != key) {
    auto found = map_.find(key);
    if (found == map_.end()) found = map_.emplace(key, Entry()).first;
    last_ = &*found;
  }
  return *last_;
}

const Entry* Table::find(std::string_view key) const {
  if (last_ != nullptr && last_->first == key) return &last_->second;
  auto found = map_.find(key);
  return found == map_.end() ? nullptr : &found->second;
}

void Table::drop_if_unused(Slot& slot) {
  Entry& entry = slot.second;
  if (entry.present() || entry.first != nullptr || (entry.extras && !entry.extras->watchers.empty())) return;
  if (last_ == &slot) last_ = nullptr;
  map_.erase(map_.find(std::string_view(slot.first)));
}

void Table::store(Slot& slot, std::string_view value) {
  Entry& entry = slot.second;
  bool created = !entry.has_value;
  std::string old_value;
  bool watched = entry.extras && !entry.extras->watchers.empty();
  if (watched) old_value = entry.value;
  if (entry.value.capacity() > kKeepCapacity && value.size() < entry.value.capacity() / 4)
    entry.value = std::string(value);
  else
    entry.value.assign(value);
  entry.has_value = true;
  values_ += created ? 1 : 0;
  if (watched) notify(slot, created ? Change::kCreated : Change::kUpdated, old_value);
}

void Table::set(std::string_view key, std::string_view value) {
  Slot& target = slot(key);
  store(target, value);
  release_all(target.second);
}

void Table::append(std::string_view key, std::string_view bytes) {
  Slot& target = slot(key);
  Entry& entry = target.second;
  if (!entry.has_value || entry.extras) {
    store(target, entry.value + std::string(bytes));
  } else {
    entry.value.append(bytes);
  }
  release_all(entry);
}

std::string_view Table::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  auto found = map_.find(key);
  bool absent = found == map_.end() || !found->second.has_value;
  if (absent && !expected.empty()) return expected;
  if (!absent && found->second.value != expected) return found->second.value;
  Slot& target = absent ? slot(key) : *found;
  store(target, desired);
  release_all(target.second);
  return desired;
}

const std::string* Table::get(std::string_view key) const {
  const Entry* entry = find(key);
  return entry != nullptr && entry->has_value ? &entry->value : nullptr;
}

std::optional<int64_t> Table::add(std::string_view key, int64_t delta) {
  Slot& target = slot(key);
  Entry& entry = target.second;
  int64_t sum = delta;
  if (entry.has_value) {
    auto number = leading_number(entry.value);
    if (!number) return std::nullopt;
    sum = wrapping_add(*number, delta);
  }
  char text[24];
  auto [end, error] = std::to_chars(text, text + sizeof text, sum);
  store(target, {text, static_cast<size_t>(end - text)});
  release_all(entry);
  return sum;
}

bool Table::remove(std::string_view key) {
  auto found = map_.find(key);
  if (found == map_.end() || !found->second.has_value) return false;
  Entry& entry = found->second;
  std::string old_value = std::exchange(entry.value, {});
  entry.has_value = false;
  --values_;
  notify(*found, Change::kDeleted, old_value);
  drop_if_unused(*found);
  return true;
}

void Table::push(std::string_view key, std::string_view bytes) {
  Slot& target = slot(key);
  Entry& entry = target.second;
  if (!entry.extras) entry.extras = std::make_unique<Entry::Extras>();
  entry.extras->queue.emplace_back(bytes);
  release_one(target);
}

std::optional<std::string> Table::pop(std::string_view key) {
  auto found = map_.find(key);
  if (found == map_.end() || !found->second.has_free_item()) return std::nullopt;
  auto& queue = found->second.extras->queue;
  std::string item = std::move(queue.front());
  queue.pop_front();
  drop_if_unused(*found);
  return item;
}

size_t Table::queue_size(std::string_view key) const {
  const Entry* entry = find(key);
  return entry != nullptr && entry->extras ? entry->extras->queue.size() : 0;
}

void Table::for_each_key(const std::function<void(std::string_view)>& visit) const {
  for (const Slot& slot : map_)
    if (slot.second.has_value) visit(slot.first);
}

bool Table::has_all(const StringList& keys) const {
  for (std::string_view key : keys) {
    const Entry* entry = find(key);
    if (entry == nullptr || !entry->present()) return false;
  }
  return true;
}

bool Table::wait(Waiter& waiter, const StringList& keys) {
  cancel(waiter);
  uint32_t count = 0;
  uint32_t absent = 0;
  Slot* last = nullptr;
  for (std::string_view key : keys) {
    auto found = map_.find(key);
    last = found == map_.end() ? nullptr : &*found;
    absent += last == nullptr || !ends_a_wait(last->second) ? 1 : 0;
    ++count;
  }
  if (absent == 0) {
    if (count == 1 && !last->second.has_value) promise(waiter, *last);
    return true;
  }
  if (absent > 1) waiter.many_ = std::make_unique<Entry::Node[]>(absent);
  for (std::string_view key : keys) {
    Slot& target = slot(key);
    if (ends_a_wait(target.second)) continue;
    link(waiter, absent > 1 ? waiter.many_[waiter.registered_] : waiter.one_, target);
  }
  return false;
}

std::optional<bool> Table::barrier(Waiter& waiter, std::string_view key, int64_t world_size) {
  cancel(waiter);
  Slot& target = slot(key);
  Entry& entry = target.second;
  int64_t count = 1;
  if (entry.has_value) {
    auto number = leading_number(entry.value);
    if (!number) return std::nullopt;
    count = wrapping_add(*number, 1);
  }
  store(target, std::to_string(count));
  if (count >= world_size) {
    release_all(entry);
    return true;
  }
  link(waiter, waiter.one_, target);
  return false;
}

void Table::cancel(Waiter& waiter) {
  if (waiter.registered_ == 0) return;
  Entry::Node* nodes = waiter.many_ ? waiter.many_.get() : &waiter.one_;
  for (uint32_t i = 0; i < waiter.registered_; ++i) {
    Slot* target = nodes[i].slot;
    if (target == nullptr) continue;
    unlink(nodes[i]);
    drop_if_unused(*target);
  }
  waiter.registered_ = 0;
  waiter.missing_ = 0;
  waiter.many_.reset();
}

void Table::link(Waiter& waiter, Entry::Node& node, Slot& slot) {
  Entry& entry = slot.second;
  node = {&waiter, &slot, entry.last, nullptr};
  (entry.last != nullptr ? entry.last->next : entry.first) = &node;
  entry.last = &node;
  ++waiter.registered_;
  ++waiter.missing_;
}

void Table::unlink(Entry::Node& node) {
  MUSTER_CHECK(node.slot != nullptr);
  Entry& entry = node.slot->second;
  (node.previous != nullptr ? node.previous->next : entry.first) = node.next;
  (node.next != nullptr ? node.next->previous : entry.last) = node.previous;
  node.slot = nullptr;
}

// One key of a wait has come. True if it was the last: then the wait is over and `node` may be gone.
bool Table::arrived(Entry::Node& node) {
  Waiter& waiter = *node.waiter;
  unlink(node);
  if (--waiter.missing_ > 0) return false;
  waiter.registered_ = 0;
  waiter.many_.reset();
  observer_.released(waiter);
  return true;
}

void Table::release_all(Entry& entry) {
  while (entry.first != nullptr) arrived(*entry.first);
}

void Table::release_one(Slot& slot) {
  // Whoever still waits for something else takes note of this key, but the item is for one who can pop it now.
  while (slot.second.first != nullptr) {
    Waiter& waiter = *slot.second.first->waiter;
    if (!arrived(*slot.second.first)) continue;
    promise(waiter, slot);
    return;
  }
}

void Table::promise(Waiter& waiter, Slot& slot) {
  waiter.promise_ = std::make_unique<std::string>(slot.first);
  waiter.promise_is_old_ = false;
  promised_to_.push_back(&waiter);
  ++slot.second.extras->promised;
}

void Table::settle_promise(Waiter& waiter, const Request* request) {
  std::unique_ptr<std::string> key = std::move(waiter.promise_);
  std::erase(promised_to_, &waiter);
  auto found = map_.find(std::string_view(*key));
  MUSTER_CHECK(found != map_.end() && found->second.has_queue());
  --found->second.extras->promised;
  if (request != nullptr && request->op == Op::kQueuePop && request->key == *key) return;
  release_one(*found);
}

void Table::expire_promises() {
  const std::vector<Waiter*> all = promised_to_;  // an item handed on is a new promise
  for (Waiter* waiter : all) {
    if (std::exchange(waiter->promise_is_old_, true)) settle_promise(*waiter, nullptr);
  }
}

void Table::notify(Slot& slot, Change change, std::string_view old_value) {
  if (!slot.second.extras) return;
  for (Waiter* watcher : slot.second.extras->watchers)
    observer_.changed(*watcher, change, slot.first, old_value, slot.second.value);
}

void Table::watch(Waiter& watcher, std::string_view key) {
  Slot& target = slot(key);
  Entry& entry = target.second;
  if (!entry.extras) entry.extras = std::make_unique<Entry::Extras>();
  auto& watchers = entry.extras->watchers;
  if (std::find(watchers.begin(), watchers.end(), &watcher) != watchers.end()) return;
  watchers.push_back(&watcher);
  if (!watcher.watched_) watcher.watched_ = std::make_unique<std::vector<Slot*>>();
  watcher.watched_->push_back(&target);
}

void Table::forget(Waiter& waiter) {
  cancel(waiter);
  if (waiter.promise_) settle_promise(waiter, nullptr);
  if (!waiter.watched_) return;
  for (Slot* target : *waiter.watched_) {
    auto& watchers = target->second.extras->watchers;
    watchers.erase(std::remove(watchers.begin(), watchers.end(), &waiter), watchers.end());
    drop_if_unused(*target);
  }
  waiter.watched_.reset();
}

}  // namespace muster::store
