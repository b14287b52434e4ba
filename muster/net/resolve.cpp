#include "muster/net/resolve.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "muster/base/detached_thread.h"
#include "muster/base/fd.h"
#include "muster/base/strings.h"
#include "muster/net/interfaces.h"
#include "muster/net/socket.h"

namespace muster::net {
namespace {

// A call that blocks as long as it likes, in a thread that nobody waits for longer than he wants to.
template <typename Answer>
class Inquiry {
 public:
  explicit Inquiry(std::function<Answer()> ask) : shared_(std::make_shared<Shared>()) {
    if (!shared_->ready) {
      failure_ = system_error(errno, "cannot ask the resolver");
      return;
    }
    auto started = start_detached_thread([ask = std::move(ask), shared = shared_] { shared->set(ask()); },
                                         "cannot start a thread");
    if (!started) failure_ = started.error();
    if (failure_) shared_->wake();
  }

  int fd() const { return shared_->ready.get(); }

  Result<Answer> take(Deadline deadline) {
    if (failure_) return *failure_;
    (void)wait_for(fd(), POLLIN, deadline);
    std::lock_guard lock(shared_->mutex);
    if (!shared_->answer) return Error{ErrorKind::kTimeout, "no answer", {}};
    return *std::move(shared_->answer);
  }

 private:
  struct Shared {
    Fd ready{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::mutex mutex;
    std::optional<Answer> answer;

    void wake() const { (void)::eventfd_write(ready.get(), 1); }
    void set(Answer given) {
      {
        std::lock_guard lock(mutex);
        answer = std::move(given);
      }
      wake();
    }
  };

  std::shared_ptr<Shared> shared_;
  std::optional<Error> failure_;
};

Error no_answer(const std::string& name, Duration waited) {
  return {ErrorKind::kTimeout,
          fmt::format("the resolver gave no answer for '{}' within {}", name, seconds_text(waited)),
          "look at /etc/resolv.conf, or give an address instead of the name"};
}

}  // namespace

Error cannot_resolve(const std::string& name, int gai_error) {
  // What a resolver without an upstream says of any name that it does not know.
  const std::string_view doubt = gai_error == EAI_AGAIN ? ", or the name is misspelt" : "";
  return {ErrorKind::kPeer, fmt::format("cannot resolve '{}': {}{}", name, gai_strerror(gai_error), doubt), {}};
}

Result<std::vector<Address>> ask_system(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(name.c_str(), nullptr, &hints, &found);
  if (error != 0) return cannot_resolve(name, error);
  std::vector<Address> addresses;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    Address address;
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.length = info->ai_addrlen;
    addresses.push_back(address);
  }
  ::freeaddrinfo(found);
  return addresses;
}

class Lookup::Impl {
 public:
  Impl(std::string name, Resolver resolver)
      : name_(std::move(name)), inquiry_([resolver = std::move(resolver), name = name_] { return resolver(name); }) {}

  int fd() const { return inquiry_.fd(); }

  Result<std::vector<Address>> take(Deadline deadline) {
    auto answer = inquiry_.take(deadline);
    if (answer) return *std::move(answer);
    if (answer.error().kind == ErrorKind::kTimeout)
      return no_answer(name_, std::max(deadline.time() - began_, Duration(0)));
    return std::move(answer).error();
  }

 private:
  TimePoint began_ = Clock::now();
  std::string name_;
  Inquiry<Result<std::vector<Address>>> inquiry_;
};

Lookup::Lookup(std::string name, Resolver resolver)
    : impl_(std::make_unique<Impl>(std::move(name), std::move(resolver))) {}
Lookup::~Lookup() = default;
int Lookup::fd() const { return impl_->fd(); }
Result<std::vector<Address>> Lookup::take(Deadline deadline) { return impl_->take(deadline); }

Result<std::vector<Address>> resolve(const std::string& host, uint16_t port, Deadline deadline,
                                     const Resolver& resolver) {
  if (auto numeric = parse_address(host, port)) return std::vector<Address>{*numeric};
  MUSTER_TRY(std::vector<Address> addresses, Lookup(host, resolver).take(deadline));
  for (Address& address : addresses) address = address.with_port(port);
  return addresses;
}

Result<std::vector<Address>> resolve_endpoints(const std::vector<std::string>& endpoints, Deadline deadline,
                                               const Resolver& resolver) {
  std::map<std::string, Result<std::vector<Address>>> known;
  std::vector<Address> addresses;
  std::optional<Error> first;
  for (const std::string& endpoint : endpoints) {
    MUSTER_TRY(HostPort parts, split_endpoint(endpoint));
    auto found = known.find(parts.host);
    if (found == known.end()) found = known.emplace(parts.host, resolve(parts.host, 0, deadline, resolver)).first;
    if (!found->second && !first) first = found->second.error();
    if (!found->second) continue;
    for (const Address& address : *found->second) addresses.push_back(address.with_port(*parts.port));
  }
  if (addresses.empty() && first) return *std::move(first);
  return addresses;
}

// As Python does it: name -> first IPv4 address -> its canonical name and aliases; the first of them with a dot, else
// the canonical name, else the host name itself.
std::string ask_full_name(const std::string& name) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return name;
  const in_addr address = reinterpret_cast<sockaddr_in*>(found->ai_addr)->sin_addr;
  ::freeaddrinfo(found);
  hostent entry{};
  hostent* result = nullptr;
  std::vector<char> buffer(8192);
  int error = 0;
  if (::gethostbyaddr_r(&address, sizeof address, AF_INET, &entry, buffer.data(), buffer.size(), &result, &error) !=
          0 ||
      result == nullptr)
    return name;
  std::string canonical = result->h_name;
  if (canonical.find('.') != std::string::npos) return canonical;
  for (char** alias = result->h_aliases; *alias != nullptr; ++alias)
    if (std::strchr(*alias, '.') != nullptr) return *alias;
  return canonical;
}

std::string fully_qualified_hostname(Deadline deadline, const FullName& ask) {
  const std::string name = hostname();
  auto full = Inquiry<std::string>([ask, name] { return ask(name); }).take(deadline);
  return full ? *std::move(full) : name;
}

}  // namespace muster::net
