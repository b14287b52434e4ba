#include <algorithm>

#include "muster/launcher/door.h"
#include "muster/net/address.h"
#include "muster/plan/known.h"

// Nodes that each run their own muster: where they meet and who hosts, by torchrun's rules.
namespace muster::plan {
namespace {

using job::Backend;
using job::NodeRange;
using job::Request;
using launcher::Symmetric;

constexpr int kStaticPort = 29500;
constexpr int kC10dPort = 29400;

struct MeetingPoint {
  std::string host;
  int port = 0;
  bool chosen = true;  // by the user; false: our default, which may be replaced where it is taken
};

Result<Nodes> plan_alone(const Request& request, Notes& notes) {
  if (request.nnodes->max > 1)
    notes.add(LogLevel::kWarning,
              fmt::format("--nnodes {}: starting on this node alone; for more give --rdzv-endpoint HOST on every node, "
                          "or --hosts here",
                          request.nnodes->text()));
  if (*request.node_rank != 0 && *request.backend == Backend::kStatic && !request.standalone)
    return request.node_rank.about({ErrorKind::kUsage,
                                    fmt::format("there is no node {} in a job of one node", *request.node_rank),
                                    "leave it out, or say how many nodes there are with --nnodes"});
  Nodes nodes;
  nodes.why = "one node";
  return nodes;
}

// Whether a node may be left over when the job has ended: --nnodes is a range (2:2 too), or the scheduler has given more
// nodes than may take part.
bool declares_spares(const Settled& settled, const NodeRange& nodes) {
  if (settled.request.nnodes->is_range) return true;
  const auto& here = settled.here;
  return here && std::max(here->allocated, static_cast<int>(here->nodes.size())) > nodes.max;
}

Result<MeetingPoint> of_endpoint(const Request& request, bool is_static) {
  auto parsed = parse_endpoint(*request.endpoint);
  if (!parsed) return request.endpoint.about(parsed.error());
  const Endpoint& given = *parsed;
  if (!is_static && given.port == -1) return MeetingPoint{given.host, kC10dPort, false};
  if (given.port < 1)
    return request.endpoint.about(
        {ErrorKind::kUsage, fmt::format("'{}' has no port that all nodes know", *request.endpoint),
         is_static ? fmt::format("write {}:{}, or use --rdzv-backend c10d", given.host, kStaticPort)
                   : fmt::format("write {}, or {}:{}", given.host, given.host, kC10dPort)});
  return MeetingPoint{given.host, given.port};
}

// Everybody must name the same place: nothing is guessed, except where torchrun does.
Result<MeetingPoint> meeting_point(const Request& request, bool is_static, Notes& notes) {
  const bool has_endpoint = !request.endpoint->empty();
  const bool by_address = is_static && !has_endpoint;
  if (!has_endpoint && !(is_static && request.master_addr.given())) {
    const std::string option = by_address ? request.master_addr.option() : request.endpoint.option();
    if (request.ours())
      return request.nnodes.about(
          {ErrorKind::kUsage, fmt::format("no rendezvous address for {} nodes", request.nnodes->text()),
           fmt::format("give {} HOST on every node (localhost: all are on this machine), or start "
                       "them all from here with --hosts",
                       option)});
    notes.add(LogLevel::kWarning, fmt::format("no {}: only nodes on this machine can meet here", option));
  }
  if (!by_address) return of_endpoint(request, is_static);
  if (*request.master_port == 0)
    return request.master_port.about({ErrorKind::kUsage, "0 is out of range", "write 1 to 65535"});
  MUSTER_TRY(std::string host, host_of(request.master_addr));
  return MeetingPoint{std::move(host), request.master_port->value_or(kStaticPort), request.master_port->has_value()};
}

Result<int> node_rank(const Request& request, int nodes, const std::string& first_host, const Known& known) {
  const int rank = *request.node_rank;
  if (rank < 0 || rank >= nodes)
    return request.node_rank.about({ErrorKind::kUsage,
                                    fmt::format("there is no node {} in a job of {} nodes", rank, nodes),
                                    fmt::format("number them from 0 to {}", nodes - 1)});
  if (!request.ours() || request.node_rank.given()) return rank;
  // Two nodes that both take themselves for the first would wait for each other.
  auto first = known.is_this_machine(first_host);
  if (first && *first) return rank;
  return request.node_rank.about(
      {ErrorKind::kUsage,
       fmt::format("the rank of this node is not known; it is not the first, which is {}", first_host),
       fmt::format("number them from 0 to {}, or use --rdzv-backend c10d, which does it by itself", nodes - 1)});
}

Result<Symmetric::Hosts> who_hosts(const Settled& settled, std::optional<int> rank, const std::string& host,
                                   const Known& known, Notes& notes) {
  using Hosts = Symmetric::Hosts;
  if (settled.derived) return settled.here->node_rank == 0 ? Hosts::kYes : Hosts::kNo;
  if (rank) return *rank == 0 ? Hosts::kYes : Hosts::kNo;
  const auto& conf = settled.request.conf;
  if (conf->file_store)
    return conf.about({ErrorKind::kUsage, "store_type=file is not supported", "leave it out: nodes meet over TCP"});
  if (conf->is_host) return *conf->is_host ? Hosts::kYes : Hosts::kNo;
  // A name that nobody here knows is not this machine's.
  auto own = known.is_this_machine(host);
  if (!own)
    notes.add(LogLevel::kInfo, fmt::format("this node does not host the job: {}; if no node hosts it, give one of them "
                                           "--rdzv-conf is_host=1",
                                           own.error().message));
  return own && *own ? Hosts::kGuess : Hosts::kNo;
}

// A command line that was copied from the first node makes two of them. That its address is not this machine's own is no
// proof: it may be a service's, or that of a translating router. What a scheduler numbers is not doubted.
void doubt_the_first(const Settled& settled, Symmetric& spec, const Known& known, Notes& notes) {
  if (settled.here || (settled.request.ours() && !settled.request.node_rank.given())) return;
  auto own = known.is_this_machine(spec.host);
  if (!own || *own) return;
  spec.doubt = fmt::format(
      "this node hosts the job as node rank 0, although {} is another machine; if another node says --node-rank 0 too, "
      "give this one its own --node-rank",
      spec.host);
  notes.add(LogLevel::kWarning, spec.doubt);
  spec.membership.way_in = fmt::format("{}; else {}", spec.doubt, spec.membership.way_in);
}

Result<MeetingPoint> find_meeting_point(const Settled& settled, bool is_static, Notes& notes) {
  if (!settled.derived) return meeting_point(settled.request, is_static, notes);
  return MeetingPoint{settled.here->nodes[0].name, launcher::derived_ports(derived_name(settled))[0], false};
}

// In which order ports are tried. As with torchrun a default is what it is; here it gives way to somebody who has it
// already.
std::vector<uint16_t> candidates(const Settled& settled, const MeetingPoint& point) {
  const auto port = static_cast<uint16_t>(point.port);
  if (settled.derived) return launcher::derived_ports(derived_name(settled));
  if (settled.request.ours() && !point.chosen) return launcher::derived_ports(port, *settled.request.rdzv_id);
  return {port};
}

Result<std::string> common_id(const Settled& settled) {
  if (settled.derived && !settled.request.rdzv_id.given()) return derived_name(settled);
  if (settled.request.rdzv_id->empty()) return empty_id(settled.request);
  return *settled.request.rdzv_id;
}

Result<Nodes> plan_symmetric(const Settled& settled, const NodeRange& range, bool is_static, const Known& known,
                             Notes& notes) {
  const Request& request = settled.request;
  const bool derived = settled.derived;
  Symmetric spec;
  MUSTER_TRY(const MeetingPoint point, find_meeting_point(settled, is_static, notes));
  spec.host = point.host;
  spec.port = static_cast<uint16_t>(point.port);
  spec.candidates = candidates(settled, point);
  spec.membership.min_nodes = range.min;
  spec.membership.max_nodes = range.max;
  spec.membership.fixed_ranks = is_static;
  if (derived)
    spec.membership.lives = static_cast<int>(settled.here->nodes.size());
  else
    spec.membership.way_in = is_static ? "start the same command there, with its own --node-rank"
                                       : "start the same command, with the same --rdzv-id, on the others";
  plan_membership(request, is_static, spec.membership);

  Nodes nodes;
  job::Membership& membership = nodes.membership.emplace();
  membership.min_nodes = range.min;
  membership.max_nodes = range.max;
  membership.join_timeout = spec.membership.join_timeout;
  membership.must_take_part = request.ours() && !declares_spares(settled, range);
  std::string where = point.host;
  if (derived && settled.here->node_rank != 0) {
    const auto address = known.get<std::string>(Topic::kSlurmAddress, where);
    if (!address.empty()) where = address;
  }
  for (uint16_t port : spec.candidates) membership.coordinators.push_back(net::endpoint_text(where, port));
  membership.ports = request.ports;
  membership.interface = *request.interface;
  if (is_static) {
    MUSTER_TRY(membership.rank, node_rank(request, range.max, point.host, known));
  } else {
    notes.ignored({&request.node_rank, &request.master_addr, &request.master_port},
                  "c10d gives ranks by the order of arrival");
  }
  notes.ignored({&request.local_addr},
                "what other nodes have been seen to reach is used; --interface chooses the network");
  MUSTER_TRY(spec.hosts, who_hosts(settled, membership.rank, point.host, known, notes));
  if (is_static && spec.hosts == Symmetric::Hosts::kYes) doubt_the_first(settled, spec, known, notes);
  // Nobody was promised that rank 0 listens at the derived port.
  const bool promised = is_static && !derived;
  nodes.meeting.backend = promised ? "static" : "c10d";
  nodes.meeting.master_addr = promised ? point.host : "";
  MUSTER_TRY(nodes.meeting.run_id, common_id(settled));
  nodes.why = settled.here ? settled.here->what : fmt::format("--nnodes {}, no hosts named", request.nnodes->text());
  nodes.start = std::move(spec);
  return nodes;
}

}  // namespace

Error empty_id(const Request& request) {
  return request.rdzv_id.about({ErrorKind::kUsage, "it is empty", "give all nodes the same name, or leave it out"});
}

Result<Nodes> plan_own_node(const Settled& settled, const Known& known, Notes& notes) {
  const Request& request = settled.request;
  const NodeRange& nodes = *request.nnodes;
  bool is_static = *request.backend == Backend::kStatic;
  // Nobody else can find port 0: torchrun's way to say that there is nobody else.
  auto endpoint = parse_endpoint(*request.endpoint);
  const bool has_endpoint = !request.endpoint->empty() && (is_static || !endpoint || endpoint->port != 0);
  // A range means something to c10d only. torchrun's default is static all the same, and takes MAX.
  const bool numbered = request.node_rank.given() || (request.master_addr.given() && !has_endpoint);
  if (request.ours() && nodes.min < nodes.max && !request.backend.given() && !numbered) is_static = false;

  const int needed = is_static ? nodes.max : nodes.min;
  if (request.standalone && nodes.min > 1)
    return Error{ErrorKind::kUsage,
                 fmt::format("--standalone is a job of this node alone, and --nnodes asks for {}", nodes.min),
                 "leave one of them out"};
  if (request.standalone || nodes.max == 1 || (needed == 1 && !has_endpoint && !settled.derived))
    return plan_alone(request, notes);
  return plan_symmetric(settled, is_static ? NodeRange{nodes.max, nodes.max} : nodes, is_static, known, notes);
}

}  // namespace muster::plan
