#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "muster/base/result.h"
#include "muster/job/token.h"

namespace muster::rendezvous {

// No envelope of munge's around a token is longer.
inline constexpr size_t kLongestCredential = 4096;

// The token of a job in an envelope that munged closes and opens, on any machine with the same munge key, for our own
// uid alone. libmunge is opened at run time. Each call talks to the machine's munged and blocks for what libmunge
// allows it: at once where there is none, 2 s where it does not let us in, 10 s where it does not answer.
class Munge {
 public:
  // `socket`: of munged; empty: the one that libmunge was built for.
  static Result<Munge> open(const std::string& socket = {});

  // `job` names the job, and the node that opens the envelope must name the same: a launcher's has a fresh nonce, that of
  // a Slurm step its job, step, port and rendezvous id. Token::job() goes with it, for the message to a node of another
  // job.
  Result<std::string> seal(const job::Token& token, std::string_view job) const;

  // Takes an envelope that was opened here before, or that is too old (munge: replayed, expired, rewound), so that one
  // envelope does for all nodes of a job. Those rules keep a credential from being used twice as a proof of who asks;
  // here nobody is let in for having one. It carries a secret to whoever can open it, which is this user, and both
  // sides then prove that they have the same secret. Somebody who replays an envelope of another job of the same name
  // can make a node take that job's token: its handshake fails, and it does not join. He learns nothing, and is let in
  // nowhere.
  Result<job::Token> unseal(const std::string& credential, std::string_view job) const;

 private:
  struct Library;
  Munge() = default;
  std::shared_ptr<const Library> library_;
  std::string socket_;
};

}  // namespace muster::rendezvous
