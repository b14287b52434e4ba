#include "muster/plan/known.h"

// A job of one node: what is MASTER_ADDR, on which port, and what the job is called.
namespace muster::plan {
namespace {

using job::Backend;
using job::Request;

constexpr int kDefaultStaticPort = 29500;

// The store of a job of one node is on that node: workers that were sent elsewhere would wait for nothing. torchrun
// sends them. Nor is this a spare of that machine: the job would end with it.
Result<void> check_own(const Request& request, const job::Source& source, const std::string& host, const Known& known) {
  if (!request.ours()) return {};
  auto own = known.is_this_machine(host);
  if (own && *own) return {};
  std::string hint = "the job has one node: leave it out, or say how many nodes there are with --nnodes";
  if (source.option_name == request.endpoint.option_name) hint += "; for one node and a spare give --hosts";
  return source.about(
      {ErrorKind::kUsage, own ? fmt::format("'{}' is not this machine", host) : own.error().message, hint});
}

// 0: any that is free, which the store finds by itself unless only some will do.
Result<uint16_t> fix_port(const Settled& settled, int port, const Known& known, Notes& notes) {
  const Request& request = settled.request;
  if (port != 0) {
    auto free = known.find<bool>(Topic::kPortIsFree, std::to_string(port));
    if (free) return static_cast<uint16_t>(port);
    // As in an allocation of several nodes, which are all started from here too.
    const bool in_allocation = settled.here && settled.here->role == cluster::Role::kHead;
    const std::string option = request.endpoint->empty() ? request.master_port.option() : request.endpoint.option();
    if (request.port_may_change) {
      if (request.master_port.origin == job::Origin::kOption)
        notes.add(LogLevel::kInfo, fmt::format("port {} is taken: a free one is used", port));
    } else if (in_allocation) {
      notes.add(LogLevel::kWarning, fmt::format("{}: {}; taking a free one", option, free.error().message));
    } else {
      return free.error();
    }
  }
  const job::PortRange& ports = request.ports;
  if (ports.first == 0) return uint16_t{0};
  const int chosen = known.get<int>(Topic::kFreePort, fmt::format("{}-{}", ports.first, ports.last));
  if (chosen == 0)
    return Error{ErrorKind::kUsage,
                 fmt::format("--port-range: every port from {} to {} is taken", ports.first, ports.last),
                 "give a wider range"};
  return static_cast<uint16_t>(chosen);
}

// 38 digits at most, as Python's uuid4().int has.
std::string decimal_id(std::string_view uuid) {
  unsigned __int128 number = 0;
  for (char c : uuid) {
    if (c == '-') continue;
    number = number * 16 + static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  std::string digits;
  for (; number != 0; number /= 10)
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(number % 10)));
  return digits;
}

std::string run_id(const Request& request, bool is_static, const Known& known) {
  const auto& id = request.rdzv_id;
  const bool named = id.given() && !(request.ours() && id->empty());
  // torchrun overwrites even a given id when it decides by itself where to meet.
  const bool fresh = request.ours() ? !named : !is_static && *request.backend == Backend::kStatic;
  if (request.standalone || fresh) return known.plain().uuid;
  return id->empty() ? decimal_id(known.plain().uuid) : *id;
}

}  // namespace

Result<Meeting> plan_meeting(const Settled& settled, const Known& known, Notes& notes) {
  const Request& request = settled.request;
  const bool has_endpoint = !request.endpoint->empty() && !request.standalone;
  const bool is_static =
      !request.standalone && *request.backend == Backend::kStatic && (has_endpoint || request.master_port->has_value());
  Meeting meeting;
  meeting.backend = is_static ? "static" : "c10d";
  meeting.run_id = run_id(request, is_static, known);
  Endpoint endpoint;
  if (has_endpoint) {
    auto given = parse_endpoint(*request.endpoint);
    if (!given) return request.endpoint.about(given.error());
    endpoint = *std::move(given);
    MUSTER_TRY_VOID(check_own(request, request.endpoint, endpoint.host, known));
  }
  int port = 0;
  if (is_static && has_endpoint) {
    if (endpoint.port < 0)
      return request.endpoint.about(
          {ErrorKind::kUsage, fmt::format("'{}' has no port", *request.endpoint),
           fmt::format("write {}:{}, or use --rdzv-backend c10d", *request.endpoint, kDefaultStaticPort)});
    meeting.master_addr = endpoint.host;
    port = endpoint.port;
  } else if (is_static || request.ours()) {
    const auto& address = !is_static && request.local_addr.given() ? request.local_addr : request.master_addr;
    MUSTER_TRY(meeting.master_addr, host_of(address));
    MUSTER_TRY_VOID(check_own(request, address, meeting.master_addr, known));
    // c10d's endpoint is where agents meet; with one node there is nobody to meet, and the store takes its port.
    port = is_static ? **request.master_port : std::max(endpoint.port, 0);
  } else {
    meeting.master_addr =
        request.local_addr.given() ? *request.local_addr : known.get<std::string>(Topic::kFullHostname);
  }
  MUSTER_TRY(meeting.master_port, fix_port(settled, port, known, notes));
  return meeting;
}

job::StoreHost store_host(const Request& request, bool old_torch) {
  return request.store.value_or(old_torch ? job::StoreHost::kWorker : job::StoreHost::kAgent);
}

}  // namespace muster::plan
