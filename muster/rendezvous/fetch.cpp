#include "muster/rendezvous/fetch.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <thread>

#include "muster/base/fd.h"
#include "muster/base/strings.h"
#include "muster/net/event_loop.h"
#include "muster/net/socket.h"
#include "muster/rendezvous/channel.h"
#include "muster/rendezvous/handshake.h"

namespace muster::rendezvous {
namespace {

constexpr Duration kEach = std::chrono::seconds(3);
// Between two passes over the addresses. Short at first: mostly whoever is asked is there already, or will be soon.
constexpr Duration kFirstPause = std::chrono::milliseconds(20);
constexpr Duration kLongestPause = std::chrono::milliseconds(250);
constexpr size_t kLongestDescription = 17 << 20;

Error late() { return {ErrorKind::kTimeout, "no answer", {}}; }
Error failure(int error, std::string what) {
  return error == ETIMEDOUT ? late() : system_error(error, std::move(what));
}

// The credential that one address has for us. kPeer: a muster has answered, and has none.
Result<std::string> ask(const net::Address& address, Deadline deadline) {
  Fd socket;
  if (int error = net::connect_until(address, deadline, socket)) return failure(error, "connect");
  Handshake handshake(job::Token(), Purpose::kSealedToken);
  const std::string hello = handshake.call();
  if (::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(hello.size()))
    return system_error(errno, "send");
  std::string answer;
  for (;;) {
    if (int error = net::wait_for(socket.get(), POLLIN, deadline)) return failure(error, "poll");
    std::array<char, 4096> bytes;
    const ssize_t size = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (size < 0) return system_error(errno, "receive");
    if (size == 0) return Error{ErrorKind::kSystem, "connection closed before the answer was whole", {}};
    answer.append(bytes.data(), static_cast<size_t>(size));
    MUSTER_TRY(std::optional<std::string> credential, read_sealed_answer(answer));
    if (!credential) continue;
    if (credential->empty()) return Error{ErrorKind::kPeer, "hands out no token by munge", {}};
    return *std::move(credential);
  }
}

Result<job::Token> ask_and_open(const net::Address& address, const Unseal& unseal, Deadline deadline) {
  const Deadline patience = Deadline::at(std::min(deadline.time(), Clock::now() + kEach));
  MUSTER_TRY(std::string credential, ask(address, patience));
  return unseal(credential);
}

// A machine that is off or out of reach hangs up too, in half a minute.
void watch_closely(const Fd& socket) {
  constexpr int kIdle = 10, kPeriod = 5, kTries = 4;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, &kIdle, sizeof kIdle);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, &kPeriod, sizeof kPeriod);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, &kTries, sizeof kTries);
}

}  // namespace

Result<job::Token> fetch_token(const std::vector<net::Address>& addresses, const Unseal& unseal, Deadline deadline,
                               TimePoint began) {
  std::vector<std::string> failures(addresses.size(), "not tried");
  Duration pause = kFirstPause;
  while (!addresses.empty()) {
    size_t refusals = 0;
    for (size_t i = 0; i < addresses.size() && !deadline.passed(); ++i) {
      auto token = ask_and_open(addresses[i], unseal, deadline);
      if (token) return token;
      Error why = token.error();
      failures[i] = why.text();
      if (why.kind != ErrorKind::kPeer || ++refusals < addresses.size()) continue;
      why.message = fmt::format("{} {}", addresses[i].text(), why.message);
      return why;
    }
    if (Clock::now() + pause >= deadline.time()) break;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  std::vector<std::string> tried;
  for (size_t i = 0; i < addresses.size(); ++i) tried.push_back(addresses[i].text() + ": " + failures[i]);
  return Error{
      ErrorKind::kTimeout,
      fmt::format("the job's token did not arrive in {}: {}", seconds_text(Clock::now() - began), join(tried, "; ")),
      {}};
}

Result<Fetched> fetch_description(const std::vector<net::Address>& addresses, const job::Token& token,
                                  std::string_view name, Deadline deadline) {
  net::EventLoop loop;
  Channel::Options options;
  options.token = token;
  options.purpose = Purpose::kDescription;
  options.max_message = kLongestDescription;
  std::optional<Result<std::string>> answer;
  auto finish = [&](Result<std::string> result) {
    if (!answer) answer = std::move(result);
    loop.stop();
  };
  std::unique_ptr<Channel> open;
  auto connector =
      Connector::start(loop, addresses, options, kEach, deadline, [&](Result<std::unique_ptr<Channel>> channel) {
        if (!channel) return finish(channel.error());
        open = *std::move(channel);
        open->resume_on(loop, {.opened = {},
                               .received = [&](std::string_view message) { finish(std::string(message)); },
                               .closed = [&](const Error& why) { finish(why); },
                               .drained = {}});
        open->send(name);
      });
  loop.run_until(deadline);
  if (!answer) return late();
  if (!answer->ok()) return answer->error();
  if ((**answer).empty())
    return Error{ErrorKind::kPeer, fmt::format("the launcher has no host '{}' in its list", name), {}};
  Fetched fetched{**std::move(answer), open->share_socket()};
  if (!fetched.connection) return system_error(errno, "the connection with the launcher");
  watch_closely(fetched.connection);
  return fetched;
}

}  // namespace muster::rendezvous
