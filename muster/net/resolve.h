#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/net/address.h"

namespace muster::net {

// Returns the addresses of a name, with port 0. May block without limit, in any thread. Tests supply their own.
using Resolver = std::function<Result<std::vector<Address>>(const std::string& name)>;

// getaddrinfo(): the hosts file, DNS, and the rest of nsswitch.conf. Without an answer it gives up after seconds or
// minutes.
Result<std::vector<Address>> ask_system(const std::string& name);
// The text of an error of getaddrinfo().
Error cannot_resolve(const std::string& name, int gai_error);

// One question to a resolver, in its own thread, because a resolver has no deadline. A caller that has waited long
// enough destroys the Lookup. The thread then ends when the resolver returns, and uses nothing of the caller. Until
// then it may read the environment, and a process that is forked may find the resolver's locks taken.
class Lookup {
 public:
  explicit Lookup(std::string name, Resolver resolver = ask_system);
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  int fd() const;  // readable when there is an answer; -1: take() returns at once, with the reason
  // Waits for the answer. kTimeout: no answer until the deadline. kPeer: the name cannot be resolved.
  Result<std::vector<Address>> take(Deadline deadline);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A numeric address is answered at once; for a name see Lookup.
Result<std::vector<Address>> resolve(const std::string& host, uint16_t port, Deadline deadline,
                                     const Resolver& resolver = ask_system);

// The addresses of all endpoints (split_endpoint()) in their order; each host is looked up once. If no endpoint has an
// address, the error is that of the first.
Result<std::vector<Address>> resolve_endpoints(const std::vector<std::string>& endpoints, Deadline deadline,
                                               const Resolver& resolver = ask_system);

// The time limit for questions about this machine's own name; muster works without the answer.
inline constexpr auto kOwnNameTime = std::chrono::seconds(3);

// As Python's socket.getfqdn(). Asks the resolver if the hosts file has no answer.
using FullName = std::function<std::string(const std::string& name)>;
std::string ask_full_name(const std::string& name);

// The same for this machine; hostname() if there is no answer until the deadline.
std::string fully_qualified_hostname(Deadline deadline, const FullName& ask = ask_full_name);

}  // namespace muster::net
