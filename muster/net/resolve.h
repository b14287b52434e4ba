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

// The addresses of a name, with port 0. Blocks as long as it likes, in any thread. Tests supply their own.
using Resolver = std::function<Result<std::vector<Address>>(const std::string& name)>;

// getaddrinfo(): the hosts file, DNS, whatever nsswitch.conf says. Without an answer it gives up after seconds, or
// minutes.
Result<std::vector<Address>> ask_system(const std::string& name);
// getaddrinfo()'s failure in words.
Error cannot_resolve(const std::string& name, int gai_error);

// One question to a resolver, in a thread of its own, since no resolver knows a deadline. Whoever has waited long
// enough destroys the Lookup: the thread ends when the resolver does, and touches nothing of ours then. It may read the
// environment meanwhile, and a process that is forked meanwhile may find the resolver's locks taken.
class Lookup {
 public:
  explicit Lookup(std::string name, Resolver resolver = ask_system);
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  int fd() const;  // readable once there is an answer; -1: take() says at once why nobody could be asked
  // The answer; waits for it. kTimeout: none until the deadline. kPeer: nobody knows the name.
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

// For questions about this machine's own name: what is not known by then we do without.
inline constexpr auto kOwnNameTime = std::chrono::seconds(3);

// What Python's socket.getfqdn() makes of a name; asks the resolver when the hosts file has no answer.
using FullName = std::function<std::string(const std::string& name)>;
std::string ask_full_name(const std::string& name);

// The same of this machine's; hostname() when nobody knows until the deadline.
std::string fully_qualified_hostname(Deadline deadline, const FullName& ask = ask_full_name);

}  // namespace muster::net
