#include "muster/agent/round_store.h"
#include "muster/cli/job_planner.h"

namespace muster::cli {
namespace {

constexpr int kDefaultStaticPort = 29500;

}  // namespace

// One node: who is MASTER_ADDR, on which port, and what the job is called.
Result<void> Planner::plan_rendezvous() {
  if (!alone()) return {};
  const bool has_endpoint = !text(Opt::kRdzvEndpoint).empty() && !standalone();
  const bool has_port = parsed_.has(Opt::kMasterPort);
  const bool is_static = !standalone() && text(Opt::kRdzvBackend) == "static" && (has_endpoint || has_port);

  job_.rdzv_backend = is_static ? "static" : "c10d";
  job_.run_id = text(Opt::kRdzvId);
  const bool named = parsed_.given(Opt::kRdzvId) && !(ours_ && job_.run_id.empty());
  // torchrun overwrites even a given id when it decides by itself where to meet.
  if (standalone() || (ours_ ? !named : !is_static && text(Opt::kRdzvBackend) == "static")) job_.run_id = facts_.uuid();
  if (job_.run_id.empty()) job_.run_id = decimal_id();

  Endpoint endpoint;
  if (has_endpoint) {
    auto given = parse_endpoint(text(Opt::kRdzvEndpoint), -1);
    if (!given) return about(Opt::kRdzvEndpoint, given.error());
    endpoint = *given;
    MUSTER_TRY_VOID(check_own(Opt::kRdzvEndpoint, endpoint.host));
  }
  if (is_static) return plan_static(has_endpoint, endpoint);
  if (ours_) {
    MUSTER_TRY(job_.master_addr, own_address(parsed_.has(Opt::kLocalAddr) ? Opt::kLocalAddr : Opt::kMasterAddr));
  } else {
    job_.master_addr = parsed_.has(Opt::kLocalAddr) ? text(Opt::kLocalAddr) : facts_.fully_qualified_hostname();
  }
  // c10d's endpoint is where agents meet; with one node there is nobody to meet, and the store takes its port.
  return fix_port(ours_ && endpoint.port > 0 ? endpoint.port : 0);
}

Result<void> Planner::plan_static(bool has_endpoint, const Endpoint& endpoint) {
  if (!has_endpoint) {
    MUSTER_TRY(int64_t port, integer(Opt::kMasterPort, 0, 65535));
    MUSTER_TRY(job_.master_addr, own_address(Opt::kMasterAddr));
    return fix_port(static_cast<int>(port));
  }
  if (endpoint.port < 0)
    return about(Opt::kRdzvEndpoint, {ErrorKind::kUsage, fmt::format("'{}' has no port", text(Opt::kRdzvEndpoint)),
                                      fmt::format("write {}:{}, or use --rdzv-backend c10d", text(Opt::kRdzvEndpoint),
                                                  kDefaultStaticPort)});
  job_.master_addr = endpoint.host;
  return fix_port(endpoint.port);
}

Result<std::string> Planner::own_address(Opt id) const {
  auto address = parse_endpoint(text(id) + ":0", 0);
  if (!address) return about(id, address.error());
  MUSTER_TRY_VOID(check_own(id, address->host));
  return address->host;
}

// The store of a job of one node is on that node: workers that were sent elsewhere would wait for nothing. torchrun
// sends them. Nor is this a spare of that machine: the job would end with it.
Result<void> Planner::check_own(Opt id, const std::string& host) const {
  if (!ours_) return {};
  auto own = facts_.is_this_machine(host);
  if (own && *own) return {};
  std::string hint = "the job has one node: leave it out, or say how many nodes there are with --nnodes";
  if (id == Opt::kRdzvEndpoint) hint += "; for one node and a spare give --hosts";
  return about(id,
               {ErrorKind::kUsage, own ? fmt::format("'{}' is not this machine", host) : own.error().message, hint});
}

// 0: any that is free, which the store finds by itself unless only some will do.
Result<void> Planner::fix_port(int port) {
  job_.master_port = static_cast<uint16_t>(port);
  if (port != 0) {
    auto free = facts_.check_port(job_.master_port);
    // As in an allocation of several nodes, which are all started from here too.
    if (free || !here_ || here_->role != cluster::Role::kHead) return free;
    const Opt id = text(Opt::kRdzvEndpoint).empty() ? Opt::kMasterPort : Opt::kRdzvEndpoint;
    note(LogLevel::kWarning, fmt::format("{}: {}; taking a free one", dashed(option(id)), free.error().message));
    job_.master_port = 0;
  }
  if (ports_.first == 0) return {};
  for (uint16_t each : agent::ports_to_try(ports_)) {
    if (!facts_.check_port(each)) continue;
    job_.master_port = each;
    return {};
  }
  return Error{ErrorKind::kUsage,
               fmt::format("--port-range: every port from {} to {} is taken", ports_.first, ports_.last),
               "give a wider range"};
}

// 38 digits at most, as Python's uuid4().int has.
std::string Planner::decimal_id() const {
  unsigned __int128 number = 0;
  for (char c : facts_.uuid()) {
    if (c == '-') continue;
    number = number * 16 + static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  std::string digits;
  for (; number != 0; number /= 10)
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(number % 10)));
  return digits;
}

void Planner::plan_store() {
  const bool unshared = facts_.getenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE") == "1";
  const bool by_worker = text(Opt::kStore) == "worker" || (text(Opt::kStore).empty() && (old_torch_ || unshared));
  job_.store_host = by_worker ? job::StoreHost::kWorker : job::StoreHost::kAgent;
}

}  // namespace muster::cli
