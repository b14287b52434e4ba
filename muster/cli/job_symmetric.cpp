#include <algorithm>

#include "muster/base/strings.h"
#include "muster/cli/job_planner.h"
#include "muster/cli/node_environment.h"
#include "muster/cluster/scheduler_job.h"
#include "muster/launcher/door.h"

// Nodes that each run their own muster: where they meet and who hosts, by torchrun's rules.
namespace muster::cli {
namespace {

using launcher::Symmetric;

constexpr int kStaticPort = 29500;
constexpr int kC10dPort = 29400;

}  // namespace

Result<void> Planner::plan_own_node() {
  auto nodes = parse_nodes(text(Opt::kNnodes));
  if (!nodes) return about(Opt::kNnodes, nodes.error());
  bool is_static = text(Opt::kRdzvBackend) == "static";
  // Nobody else can find port 0: torchrun's way to say that there is nobody else.
  auto endpoint = parse_endpoint(text(Opt::kRdzvEndpoint), -1);
  const bool has_endpoint = !text(Opt::kRdzvEndpoint).empty() && (is_static || !endpoint || endpoint->port != 0);
  // A range means something to c10d only. torchrun's default is static all the same, and takes MAX.
  const bool numbered = parsed_.given(Opt::kNodeRank) || (parsed_.given(Opt::kMasterAddr) && !has_endpoint);
  if (ours_ && nodes->min < nodes->max && !parsed_.given(Opt::kRdzvBackend) && !numbered) is_static = false;

  const int needed = is_static ? nodes->max : nodes->min;
  if (standalone() && nodes->min > 1)
    return Error{ErrorKind::kUsage,
                 fmt::format("--standalone is a job of this node alone, and --nnodes asks for {}", nodes->min),
                 "leave one of them out"};
  if (standalone() || nodes->max == 1 || (needed == 1 && !has_endpoint && !derived_)) return plan_alone(*nodes);
  return plan_symmetric(is_static ? NodeRange{nodes->max, nodes->max} : *nodes, is_static);
}

Result<void> Planner::plan_alone(const NodeRange& nodes) {
  if (nodes.max > 1)
    note(LogLevel::kWarning,
         fmt::format("--nnodes {}: starting on this node alone; for more give --rdzv-endpoint HOST on every node, or "
                     "--hosts here",
                     text(Opt::kNnodes)));
  MUSTER_TRY(int64_t rank, integer(Opt::kNodeRank, INT32_MIN, INT32_MAX));
  if (rank != 0 && text(Opt::kRdzvBackend) == "static" && !standalone())
    return about(Opt::kNodeRank, {ErrorKind::kUsage, fmt::format("there is no node {} in a job of one node", rank),
                                  "leave it out, or say how many nodes there are with --nnodes"});
  plan_.mode_why = "one node";
  return {};
}

Result<void> Planner::plan_symmetric(const NodeRange& nodes, bool is_static) {
  Symmetric spec;
  MUSTER_TRY(Endpoint endpoint, derived_ ? Result<Endpoint>(derived_endpoint()) : meeting_point(is_static));
  spec.host = endpoint.host;
  spec.port = static_cast<uint16_t>(endpoint.port);
  spec.membership.min_nodes = nodes.min;
  spec.membership.max_nodes = nodes.max;
  spec.membership.fixed_ranks = is_static;
  if (derived_)
    spec.membership.lives = static_cast<int>(here_->nodes.size());
  else
    spec.membership.way_in = is_static ? "start the same command there, with its own --node-rank"
                                       : "start the same command, with the same --rdzv-id, on the others";
  MUSTER_TRY_VOID(plan_membership(spec.membership, is_static));

  job::Membership membership;
  membership.min_nodes = nodes.min;
  membership.max_nodes = nodes.max;
  membership.join_timeout = spec.membership.join_timeout;
  membership.must_take_part = ours_ && !declares_spares(nodes);
  spec.candidates = {spec.port};
  // As with torchrun a default is what it is; here it gives way to somebody who has it already.
  if (derived_) {
    spec.candidates = launcher::derived_ports(derived_name());
  } else if (ours_ && !endpoint.chosen) {
    spec.candidates = launcher::derived_ports(spec.port, text(Opt::kRdzvId));
  }
  std::string where = endpoint.host;
  if (derived_ && here_->node_rank != 0) where = facts_.slurm_address(where).value_or(where);
  for (uint16_t port : spec.candidates) membership.coordinators.push_back(net::endpoint_text(where, port));
  membership.ports = ports_;
  membership.interface = text(Opt::kInterface);
  if (is_static) {
    MUSTER_TRY(membership.rank, node_rank(nodes.max, endpoint));
  } else {
    note_ignored({Opt::kNodeRank, Opt::kMasterAddr, Opt::kMasterPort}, "c10d gives ranks by the order of arrival");
  }
  note_ignored({Opt::kLocalAddr}, "what other nodes have been seen to reach is used; --interface chooses the network");
  job_.membership = membership;
  MUSTER_TRY(spec.hosts, who_hosts(is_static, endpoint));
  if (is_static && spec.hosts == Symmetric::Hosts::kYes) doubt_the_first(spec);
  // Nobody was promised that rank 0 listens at the derived port.
  const bool promised = is_static && !derived_;
  job_.rdzv_backend = promised ? "static" : "c10d";
  job_.master_addr = promised ? endpoint.host : "";
  MUSTER_TRY(job_.run_id, common_id());
  MUSTER_TRY(job_.membership->token, token(fmt::format("{}\n{}", endpoint.port, job_.run_id), nodes, spec));
  plan_.mode_why = here_ ? here_->what : fmt::format("--nnodes {}, no hosts named", text(Opt::kNnodes));
  plan_.nodes = std::move(spec);
  return {};
}

// Whether a node may be left over when the job has ended: --nnodes is a range (2:2 too), or the scheduler has given more
// nodes than may take part.
bool Planner::declares_spares(const NodeRange& nodes) const {
  if (text(Opt::kNnodes).find(':') != std::string::npos) return true;
  return here_ && std::max(here_->allocated, static_cast<int>(here_->nodes.size())) > nodes.max;
}

// Everybody must name the same place: nothing is guessed, except where torchrun does.
Result<Endpoint> Planner::meeting_point(bool is_static) {
  const bool has_endpoint = !text(Opt::kRdzvEndpoint).empty();
  const Opt id = has_endpoint || !is_static ? Opt::kRdzvEndpoint : Opt::kMasterAddr;
  if (!has_endpoint && !(is_static && parsed_.given(Opt::kMasterAddr))) {
    if (ours_)
      return about(Opt::kNnodes,
                   {ErrorKind::kUsage, fmt::format("no rendezvous address for {} nodes", text(Opt::kNnodes)),
                    fmt::format("give {} HOST on every node (localhost: all are on this machine), or start "
                                "them all from here with --hosts",
                                dashed(option(id)))});
    note(LogLevel::kWarning, fmt::format("no {}: only nodes on this machine can meet here", dashed(option(id))));
  }
  Endpoint endpoint;
  if (id == Opt::kMasterAddr) {
    auto address = parse_endpoint(text(Opt::kMasterAddr) + ":0", 0);
    if (!address)
      return about(Opt::kMasterAddr,
                   {ErrorKind::kUsage, fmt::format("'{}' is not the name of a host", text(Opt::kMasterAddr)),
                    "write the name or the address of the first node"});
    endpoint = {address->host, kStaticPort, false};
    if (parsed_.has(Opt::kMasterPort)) {
      MUSTER_TRY(int64_t port, integer(Opt::kMasterPort, 1, UINT16_MAX));
      endpoint = {address->host, static_cast<int>(port), true};
    }
    return endpoint;
  }
  auto given = parse_endpoint(text(Opt::kRdzvEndpoint), -1);
  if (!given) return about(Opt::kRdzvEndpoint, given.error());
  if (!is_static && given->port == -1) return Endpoint{given->host, kC10dPort, false};
  if (given->port < 1)
    return about(Opt::kRdzvEndpoint,
                 {ErrorKind::kUsage, fmt::format("'{}' has no port that all nodes know", text(Opt::kRdzvEndpoint)),
                  is_static ? fmt::format("write {}:{}, or use --rdzv-backend c10d", given->host, kStaticPort)
                            : fmt::format("write {}, or {}:{}", given->host, given->host, kC10dPort)});
  return given;
}

Result<int> Planner::node_rank(int nodes, const Endpoint& endpoint) {
  MUSTER_TRY(int64_t rank, integer(Opt::kNodeRank, INT32_MIN, INT32_MAX));
  if (rank < 0 || rank >= nodes)
    return about(Opt::kNodeRank,
                 {ErrorKind::kUsage, fmt::format("there is no node {} in a job of {} nodes", rank, nodes),
                  fmt::format("number them from 0 to {}", nodes - 1)});
  if (!ours_ || parsed_.given(Opt::kNodeRank)) return static_cast<int>(rank);
  // Two nodes that both take themselves for the first would wait for each other.
  auto first = facts_.is_this_machine(endpoint.host);
  if (first && *first) return static_cast<int>(rank);
  return about(
      Opt::kNodeRank,
      {ErrorKind::kUsage,
       fmt::format("the rank of this node is not known; it is not the first, which is {}", endpoint.host),
       fmt::format("number them from 0 to {}, or use --rdzv-backend c10d, which does it by itself", nodes - 1)});
}

Result<Symmetric::Hosts> Planner::who_hosts(bool is_static, const Endpoint& endpoint) {
  if (derived_) return here_->node_rank == 0 ? Symmetric::Hosts::kYes : Symmetric::Hosts::kNo;
  if (is_static) return job_.membership->rank == 0 ? Symmetric::Hosts::kYes : Symmetric::Hosts::kNo;
  if (auto type = conf_.find("store_type"); type != conf_.end() && type->second == "file")
    return about(Opt::kRdzvConf,
                 {ErrorKind::kUsage, "store_type=file is not supported", "leave it out: nodes meet over TCP"});
  if (auto answer = conf_.find("is_host"); answer != conf_.end())
    return says_yes(answer->second) ? Symmetric::Hosts::kYes : Symmetric::Hosts::kNo;
  // A name that nobody here knows is not this machine's.
  auto own = facts_.is_this_machine(endpoint.host);
  if (!own)
    note(LogLevel::kInfo, fmt::format("this node does not host the job: {}; if no node hosts it, give one of them "
                                      "--rdzv-conf is_host=1",
                                      own.error().message));
  return own && *own ? Symmetric::Hosts::kGuess : Symmetric::Hosts::kNo;
}

// A command line that was copied from the first node makes two of them. That its address is not this machine's own is no
// proof: it may be a service's, or that of a translating router. What a scheduler numbers is not doubted.
void Planner::doubt_the_first(Symmetric& spec) {
  if (here_ || (ours_ && !parsed_.given(Opt::kNodeRank))) return;
  auto own = facts_.is_this_machine(spec.host);
  if (!own || *own) return;
  spec.doubt = fmt::format(
      "this node hosts the job as node rank 0, although {} is another machine; if another node says --node-rank 0 too, "
      "give this one its own --node-rank",
      spec.host);
  note(LogLevel::kWarning, spec.doubt);
  spec.membership.way_in = fmt::format("{}; else {}", spec.doubt, spec.membership.way_in);
}

Result<std::string> Planner::token_file() const {
  auto secret = facts_.token_file(text(Opt::kTokenFile));
  if (!secret) return about(Opt::kTokenFile, secret.error());
  return *std::move(secret);
}

// What the user has given the nodes to know each other by. Nothing: --insecure, or nothing was given.
Result<std::optional<std::string>> Planner::given_secret() const {
  const bool insecure = parsed_.flag(Opt::kInsecure);
  if (insecure && parsed_.given(Opt::kTokenFile))
    return Error{ErrorKind::kUsage, "--insecure and --token-file exclude each other", "leave one of them out"};
  if (insecure) return std::optional<std::string>();
  if (parsed_.given(Opt::kTokenFile)) {
    MUSTER_TRY(std::string secret, token_file());
    return std::optional(std::move(secret));
  }
  auto secret = facts_.getenv(std::string(kTokenVariable));
  if (!secret || trim(*secret).empty()) return std::optional<std::string>();
  return std::optional(std::string(trim(*secret)));
}

// Which job this node is of (Token::job()): the scheduler's, and its step if the step has as many nodes as the job may
// have. A job that spans several of the scheduler's, or of which some nodes have none, is one if its user has given a
// secret; a secret alone is not enough while the scheduler's job has all the nodes that it may have, or a
// script with a secret in it that is submitted twice would become one job. If it is not known how many nodes the
// scheduler's job has, as in a container without its variables, the name of that job stays.
std::string Planner::job_name(const NodeRange& nodes, bool secret_given) const {
  std::string job = cluster::scheduler_job(facts_.getenv, facts_.read_file);
  const int allocated = here_ ? here_->allocated : 0;
  const bool spans_several = allocated > 0 && nodes.max > allocated;
  if (secret_given && (job.empty() || spans_several)) return std::string(job::Token::kAnyJob);
  const bool in_step = here_ && here_->in_step && nodes.max <= static_cast<int>(here_->nodes.size());
  return in_step ? fmt::format("step {} of {}", here_->step_id, job) : job;
}

// `meeting` is what all nodes of the job have in common besides: the port and the run id. Not the host of the endpoint:
// the node that has it may be told localhost.
Result<job::Token> Planner::token(const std::string& meeting, const NodeRange& nodes, Symmetric& spec) {
  MUSTER_TRY(const std::optional<std::string> secret, given_secret());
  const std::string job = job_name(nodes, secret.has_value());
  job::Token token;
  // It needs no home directory that the nodes share.
  const bool by_munge = here_ && here_->in_step && here_->adapter->nodes_share_munge();
  if (!secret && !parsed_.flag(Opt::kInsecure) && by_munge && facts_.munge()) {
    spec.sealed_as = fmt::format("symmetric\n{}\n{}", job, meeting);
  } else {
    MUSTER_TRY(token, secret_token(meeting, secret));
  }
  token.set_job(job);
  return token;
}

Result<job::Token> Planner::secret_token(const std::string& meeting, const std::optional<std::string>& secret) {
  if (secret) return job::Token::derive_from_words(*secret, meeting);
  std::optional<std::string> key;
  if (!parsed_.flag(Opt::kInsecure)) {
    MUSTER_TRY(key, facts_.user_key(ours_ && !parsed_.flag(Opt::kDryRun)));
    if (!key && !ours_)
      note(LogLevel::kWarning,
           "no MUSTER_TOKEN, no --token-file and no key: as with torchrun, every process that reaches the port can "
           "join");
  }
  job_.membership->open_to_all = !key;
  return job::Token::derive(key.value_or(""), meeting);
}

}  // namespace muster::cli
