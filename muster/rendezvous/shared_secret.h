#pragma once

#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/job/token.h"
#include "muster/net/address.h"

namespace muster::rendezvous {

// The token of a job, and how agents that a scheduler starts get it: a scheduler does not pass on a stdin that other
// users cannot read.
struct SharedSecret {
  job::Token token = job::Token::random();
  std::string nonce;   // hex, public: makes the secret this job's. Empty: the token travels on stdin
  std::string sealed;  // Munge::seal() of the token, for agents that ask. Empty: agents derive it from the user's key
};

// The launcher's side, before any agent is started: by munge if it works on this machine, else from the user's key, which
// is made if there is none. Blocks as Munge does.
Result<SharedSecret> choose_secret();

// An agent's side. By munge it asks the coordinator for the sealed token; otherwise it reads the user's key. Blocks until
// the deadline.
Result<job::Token> find_secret(const std::vector<net::Address>& coordinators, const std::string& nonce, bool by_munge,
                               Deadline deadline);

}  // namespace muster::rendezvous
