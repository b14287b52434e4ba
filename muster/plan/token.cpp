#include "muster/base/strings.h"
#include "muster/plan/known.h"
#include "muster/plan/node_environment.h"

// How nodes that each run their own muster know each other.
namespace muster::plan {
namespace {

using job::Request;
using job::Token;
using launcher::Symmetric;

// What the user has given the nodes to know each other by. Empty: --insecure, or nothing was given.
Result<std::string> given_secret(const Request& request, const Known& known) {
  if (request.insecure && request.token_file.given())
    return Error{ErrorKind::kUsage, "--insecure and --token-file exclude each other", "leave one of them out"};
  if (request.insecure) return std::string();
  if (request.token_file.given()) return read_token_file(request, known);
  return std::string(trim(known.variable(kTokenVariable).value_or("")));
}

// Which job this node is of (Token::job()): the scheduler's, and its step if the step has as many nodes as the job may
// have. A job that spans several of the scheduler's, or of which some nodes have none, is one if its user has given a
// secret; a secret alone is not enough while the scheduler's job has all the nodes that it may have, or a
// script with a secret in it that is submitted twice would become one job. If it is not known how many nodes the
// scheduler's job has, as in a container without its variables, the name of that job stays.
std::string job_name(const Settled& settled, int most_nodes, bool secret_given, const Known& known) {
  const auto job = known.get<std::string>(Topic::kSchedulerJob);
  const int allocated = settled.here ? settled.here->allocated : 0;
  const bool spans_several = allocated > 0 && most_nodes > allocated;
  if (secret_given && (job.empty() || spans_several)) return std::string(Token::kAnyJob);
  const bool in_step =
      settled.here && settled.here->in_step && most_nodes <= static_cast<int>(settled.here->nodes.size());
  return in_step ? fmt::format("step {} of {}", settled.here->step_id, job) : job;
}

Result<Token> token_without_secret(const Request& request, const std::string& meeting, job::Membership& membership,
                                   const Known& known, Notes& notes) {
  std::string key;
  if (!request.insecure) {
    const bool make = request.ours() && !request.dry_run;
    MUSTER_TRY(key, known.find<std::string>(Topic::kUserKey, make ? "make" : ""));
    if (key.empty() && !request.ours())
      notes.add(LogLevel::kWarning,
                "no MUSTER_TOKEN, no --token-file and no key: as with torchrun, every process that reaches the port "
                "can join");
  }
  membership.open_to_all = key.empty();
  return Token::derive(key, meeting);
}

}  // namespace

Result<std::string> read_token_file(const Request& request, const Known& known) {
  auto secret = known.find<std::string>(Topic::kTokenFile, *request.token_file);
  if (!secret) return request.token_file.about(secret.error());
  return secret;
}

Result<void> plan_token(const Settled& settled, Nodes& nodes, const Known& known, Notes& notes) {
  auto* spec = std::get_if<Symmetric>(&nodes.start);
  if (spec == nullptr) return {};
  const Request& request = settled.request;
  job::Membership& membership = *nodes.membership;
  MUSTER_TRY(const std::string secret, given_secret(request, known));
  // What all nodes of the job have in common. Not the host of the endpoint: the node that has it may be told localhost.
  const std::string meeting = fmt::format("{}\n{}", spec->port, nodes.meeting.run_id);
  const std::string job = job_name(settled, spec->membership.max_nodes, !secret.empty(), known);
  // It needs no home directory that the nodes share.
  const bool by_munge = settled.here && settled.here->in_step && settled.here->adapter->nodes_share_munge();
  if (secret.empty() && !request.insecure && by_munge && known.get<bool>(Topic::kHasMunge)) {
    spec->sealed_as = fmt::format("symmetric\n{}\n{}", job, meeting);
  } else if (secret.empty()) {
    MUSTER_TRY(membership.token, token_without_secret(request, meeting, membership, known, notes));
  } else if (!known.missing()) {  // it takes long by design
    MUSTER_TRY(membership.token, Token::derive_from_words(secret, meeting));
  }
  membership.token.set_job(job);
  return {};
}

}  // namespace muster::plan
