#include "muster/store/client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "muster/base/strings.h"
#include "muster/base/usage_error.h"
#include "muster/net/socket.h"
#include "muster/store/wire.h"

namespace muster::store {
namespace {

// PyTorch's client puts this in front of every key but the one that counts a job's workers.
constexpr char kPrefix = '/';
constexpr std::string_view kWorkerCountKey = "init/";

// How long the answer to a cancelled wait may take beyond the caller's deadline. The server answers at once; without
// its answer the connection would be out of step.
constexpr auto kCancelGrace = std::chrono::seconds(2);

constexpr size_t kReceiveStep = 1 << 20;  // a reply's memory grows as it comes, not as it states
constexpr uint64_t kMaxReply = uint64_t{1} << 40;

std::string shown(Keys keys) {
  constexpr size_t kShown = 8;
  std::vector<std::string> some(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(std::min(keys.size(), kShown)));
  std::string text = "'" + join(some, "', '") + "'";
  if (keys.size() > kShown) text += fmt::format(" and {} more", keys.size() - kShown);
  return text;
}

}  // namespace

Result<Client> Client::connect(const std::string& host, uint16_t port, Deadline deadline) {
  MUSTER_TRY(Fd fd, net::connect_tcp(host, port, deadline));
  Client client(std::move(fd), fmt::format("{}:{}", host, port));
  put_validate(client.out_);
  MUSTER_TRY_VOID(client.send(deadline));
  client.next_nonce_ = static_cast<uint32_t>(::getpid());
  MUSTER_TRY_VOID(client.ping(deadline));
  return client;
}

Error Client::broken(ErrorKind kind, std::string what) {
  unusable_ = what;
  return {kind, fmt::format("store {}: {}", server_, what), {}};
}

Result<void> Client::begin(Op op) {
  if (!unusable_.empty())
    return Error{ErrorKind::kPeer, fmt::format("store {}: unusable since: {}", server_, unusable_), {}};
  out_.clear();
  put_code(out_, Dialect::kModern, op);
  return {};
}

Result<void> Client::put_key(std::string_view key) {
  bool bare = key == kWorkerCountKey;
  size_t size = key.size() + (bare ? 0 : 1);
  if (size > Limits::kKey)
    return usage_error("store key of {} bytes, the limit is {}", key.size(), Limits::kKey - (bare ? 0 : 1));
  put_u64(out_, size);
  if (!bare) out_ += kPrefix;
  out_ += key;
  return {};
}

Result<void> Client::put_value(std::string_view value) {
  if (value.size() > Limits::kValue)
    return usage_error("store value of {} bytes, the limit is {}", value.size(), Limits::kValue);
  put_string(out_, value);
  return {};
}

Result<void> Client::put_keys(Op op, Keys keys) {
  MUSTER_TRY_VOID(begin(op));
  if (keys.size() > Limits::kList)
    return usage_error("{} store keys in one call, the limit is {}", keys.size(), Limits::kList);
  put_u64(out_, keys.size());
  for (const std::string& key : keys) MUSTER_TRY_VOID(put_key(key));
  return {};
}

Result<void> Client::send(Deadline deadline) {
  size_t sent = 0;
  while (sent < out_.size()) {
    ssize_t size = ::send(fd_.get(), out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL);
    if (size >= 0) {
      sent += static_cast<size_t>(size);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return broken(ErrorKind::kPeer, system_error(errno, "connection lost").message);
    if (int error = net::wait_for(fd_.get(), POLLOUT, deadline); error == ETIMEDOUT)
      return broken(ErrorKind::kTimeout, "timed out while sending a request");
    else if (error != 0)
      return broken(ErrorKind::kPeer, system_error(error, "poll").message);
  }
  return {};
}

// A timeout breaks the connection unless `waiting_for` is given and nothing of the reply has come: then the caller
// takes the request back.
Result<void> Client::receive(void* into, size_t size, Deadline deadline, std::string_view waiting_for) {
  auto* at = static_cast<char*>(into);
  size_t have = 0;
  while (have < size) {
    ssize_t got = ::recv(fd_.get(), at + have, size - have, 0);
    if (got > 0) {
      have += static_cast<size_t>(got);
      continue;
    }
    if (got == 0) return broken(ErrorKind::kPeer, "the server closed the connection");
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return broken(ErrorKind::kPeer, system_error(errno, "connection lost").message);
    int error = net::wait_for(fd_.get(), POLLIN, deadline);
    if (error == 0) continue;
    if (error != ETIMEDOUT) return broken(ErrorKind::kPeer, system_error(error, "poll").message);
    if (waiting_for.empty()) return broken(ErrorKind::kTimeout, "timed out while waiting for a reply");
    return Error{
        ErrorKind::kTimeout, fmt::format("store {}: timed out while waiting for {}", server_, waiting_for), {}};
  }
  return {};
}

template <typename T>
Result<T> Client::receive_number(Deadline deadline) {
  T value{};
  MUSTER_TRY_VOID(receive(&value, sizeof value, deadline, {}));
  return value;
}

Result<std::string> Client::receive_string(Deadline deadline) {
  MUSTER_TRY(auto size, receive_number<uint64_t>(deadline));
  if (size > kMaxReply) return broken(ErrorKind::kPeer, fmt::format("it states a value of {} bytes", size));
  std::string value;
  while (value.size() < size) {
    size_t have = value.size();
    value.resize(have + std::min<uint64_t>(size - have, kReceiveStep));
    MUSTER_TRY_VOID(receive(value.data() + have, value.size() - have, deadline, {}));
  }
  return value;
}

Result<void> Client::request(Op op, std::string_view key, Deadline deadline) {
  MUSTER_TRY_VOID(begin(op));
  MUSTER_TRY_VOID(put_key(key));
  return send(deadline);
}

Result<void> Client::request_with_value(Op op, std::string_view key, std::string_view value, Deadline deadline) {
  MUSTER_TRY_VOID(begin(op));
  MUSTER_TRY_VOID(put_key(key));
  MUSTER_TRY_VOID(put_value(value));
  return send(deadline);
}

// The answer to a WAIT or BARRIER that has been sent; on a timeout it is taken back.
Result<void> Client::await_release(std::string_view what, Deadline deadline) {
  uint8_t answer = kWaitCanceled;
  if (auto received = receive(&answer, sizeof answer, deadline, what); !received) {
    if (received.error().kind == ErrorKind::kTimeout) MUSTER_TRY_VOID(cancel_wait());
    return received.error();
  }
  if (answer != kStopWaiting) return broken(ErrorKind::kPeer, fmt::format("it answered a wait with {}", answer));
  return {};
}

// The release may have left the server in the same instant: then it comes first, and the wait has timed out all the
// same.
Result<void> Client::cancel_wait() {
  Deadline deadline = Deadline::in(kCancelGrace);
  MUSTER_TRY_VOID(begin(Op::kCancelWait));
  MUSTER_TRY_VOID(send(deadline));
  MUSTER_TRY(auto answer, receive_number<uint8_t>(deadline));
  if (answer == kStopWaiting) {
    MUSTER_TRY(answer, receive_number<uint8_t>(deadline));
  }
  if (answer != kWaitCanceled)
    return broken(ErrorKind::kPeer, fmt::format("it answered the end of a wait with {}", answer));
  return {};
}

Result<void> Client::set(std::string_view key, std::string_view value, Deadline deadline) {
  return request_with_value(Op::kSet, key, value, deadline);
}

Result<void> Client::append(std::string_view key, std::string_view bytes, Deadline deadline) {
  return request_with_value(Op::kAppend, key, bytes, deadline);
}

Result<std::string> Client::get(std::string_view key, Deadline deadline) {
  std::string name(key);
  MUSTER_TRY_VOID(wait({&name, 1}, deadline));
  MUSTER_TRY_VOID(request(Op::kGet, key, deadline));
  return receive_string(deadline);
}

Result<int64_t> Client::add(std::string_view key, int64_t amount, Deadline deadline) {
  MUSTER_TRY_VOID(begin(Op::kAdd));
  MUSTER_TRY_VOID(put_key(key));
  put_i64(out_, amount);
  MUSTER_TRY_VOID(send(deadline));
  return receive_number<int64_t>(deadline);
}

Result<std::string> Client::compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                                        Deadline deadline) {
  MUSTER_TRY_VOID(begin(Op::kCompareSet));
  MUSTER_TRY_VOID(put_key(key));
  MUSTER_TRY_VOID(put_value(expected));
  MUSTER_TRY_VOID(put_value(desired));
  MUSTER_TRY_VOID(send(deadline));
  return receive_string(deadline);
}

Result<bool> Client::check(Keys keys, Deadline deadline) {
  MUSTER_TRY_VOID(put_keys(Op::kCheck, keys));
  MUSTER_TRY_VOID(send(deadline));
  MUSTER_TRY(auto answer, receive_number<uint8_t>(deadline));
  return answer == kReady;
}

Result<void> Client::wait(Keys keys, Deadline deadline) {
  MUSTER_TRY_VOID(put_keys(Op::kWait, keys));
  MUSTER_TRY_VOID(send(deadline));
  return await_release(shown(keys), deadline);
}

Result<bool> Client::delete_key(std::string_view key, Deadline deadline) {
  MUSTER_TRY_VOID(request(Op::kDeleteKey, key, deadline));
  MUSTER_TRY(auto erased, receive_number<int64_t>(deadline));
  return erased > 0;
}

Result<int64_t> Client::num_keys(Deadline deadline) {
  MUSTER_TRY_VOID(begin(Op::kNumKeys));
  MUSTER_TRY_VOID(send(deadline));
  return receive_number<int64_t>(deadline);
}

Result<std::vector<std::string>> Client::list_keys(Deadline deadline) {
  MUSTER_TRY_VOID(begin(Op::kListKeys));
  MUSTER_TRY_VOID(send(deadline));
  MUSTER_TRY(auto count, receive_number<int64_t>(deadline));
  std::vector<std::string> keys;
  for (int64_t i = 0; i < count; ++i) {
    MUSTER_TRY(std::string key, receive_string(deadline));
    keys.push_back(std::move(key));
  }
  std::erase_if(keys, [](const std::string& key) { return !key.starts_with(kPrefix); });
  for (std::string& key : keys) key.erase(0, 1);
  return keys;
}

Result<std::vector<std::string>> Client::multi_get(Keys keys, Deadline deadline) {
  MUSTER_TRY_VOID(wait(keys, deadline));
  MUSTER_TRY_VOID(put_keys(Op::kMultiGet, keys));
  MUSTER_TRY_VOID(send(deadline));
  std::vector<std::string> values;
  for (size_t i = 0; i < keys.size(); ++i) {
    MUSTER_TRY(std::string value, receive_string(deadline));
    values.push_back(std::move(value));
  }
  return values;
}

Result<void> Client::multi_set(std::span<const std::pair<std::string, std::string>> pairs, Deadline deadline) {
  MUSTER_TRY_VOID(begin(Op::kMultiSet));
  if (pairs.size() > Limits::kList)
    return usage_error("{} store keys in one call, the limit is {}", pairs.size(), Limits::kList);
  put_u64(out_, pairs.size());
  for (const auto& [key, value] : pairs) {
    MUSTER_TRY_VOID(put_key(key));
    MUSTER_TRY_VOID(put_value(value));
  }
  return send(deadline);
}

Result<void> Client::queue_push(std::string_view key, std::string_view bytes, Deadline deadline) {
  return request_with_value(Op::kQueuePush, key, bytes, deadline);
}

Result<std::optional<std::string>> Client::queue_try_pop(std::string_view key, Deadline deadline) {
  MUSTER_TRY_VOID(request(Op::kQueuePop, key, deadline));
  MUSTER_TRY(auto length, receive_number<int64_t>(deadline));
  if (length <= 0) return std::optional<std::string>();
  MUSTER_TRY(std::string item, receive_string(deadline));
  return std::optional<std::string>(std::move(item));
}

Result<std::string> Client::queue_pop(std::string_view key, Deadline deadline) {
  std::string name(key);
  // Somebody who does not wait may have been faster: then once more.
  while (true) {
    MUSTER_TRY_VOID(wait({&name, 1}, deadline));
    MUSTER_TRY(auto item, queue_try_pop(key, deadline));
    if (item) return *std::move(item);
  }
}

Result<int64_t> Client::queue_len(std::string_view key, Deadline deadline) {
  MUSTER_TRY_VOID(request(Op::kQueueLen, key, deadline));
  return receive_number<int64_t>(deadline);
}

Result<void> Client::barrier(std::string_view key, int64_t world_size, Deadline deadline) {
  MUSTER_TRY_VOID(begin(Op::kBarrier));
  MUSTER_TRY_VOID(put_key(key));
  put_i64(out_, world_size);
  MUSTER_TRY_VOID(send(deadline));
  return await_release(fmt::format("barrier '{}' of {}", key, world_size), deadline);
}

Result<void> Client::ping(Deadline deadline) {
  uint32_t nonce = next_nonce_++;
  MUSTER_TRY_VOID(begin(Op::kPing));
  put_u32(out_, nonce);
  MUSTER_TRY_VOID(send(deadline));
  MUSTER_TRY(auto answer, receive_number<uint32_t>(deadline));
  if (answer != nonce) return broken(ErrorKind::kPeer, fmt::format("it answered ping {} with {}", nonce, answer));
  return {};
}

}  // namespace muster::store
