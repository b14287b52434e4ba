#include "muster/plan/plan.h"

#include "muster/cluster/adapter.h"
#include "muster/job/worker_env.h"
#include "muster/plan/known.h"
#include "muster/plan/node_environment.h"

namespace muster::plan {
namespace {

using job::Request;
using launcher::FanOut;
using launcher::Symmetric;

// A program that starts muster for itself would do so without end, and each level multiplies its processes.
Result<void> refuse_deep_nesting(const Facts& facts) {
  constexpr int kDeepest = 4;
  const int depth = job::nesting_depth(facts.environment);
  if (depth < kDeepest) return {};
  return Error{ErrorKind::kUsage,
               fmt::format("this muster runs inside of {} others, and each starts workers of its own: the program "
                           "probably starts muster for itself",
                           depth),
               "look at what PROGRAM runs; if it is meant, unset MUSTER_DEPTH in it"};
}

Result<void> check_interface(const Request& request, const Known& known) {
  if (!request.interface.given()) return {};
  auto loopback = known.find<bool>(Topic::kIsLoopback, *request.interface);
  if (!loopback) return request.interface.about(loopback.error());
  return {};
}

// After the set-up, which may make it. Each node says it of its own; simulated ones share the launcher's.
void check_temporary_directory(const Request& request, bool agent, const Known& known, Notes& notes) {
  const std::string given = known.variable("TMPDIR").value_or("");
  if (given.empty() || known.get<bool>(Topic::kIsDirectory, given) || (agent && request.local_nodes.given())) return;
  notes.add_own(LogLevel::kWarning, no_temporary_directory(given));
}

Result<void> check_report(const Request& request, const Known& known) {
  if (request.report->empty()) return {};
  auto can = known.find<bool>(Topic::kCanCreate, *request.report);
  if (can) return {};
  return request.report.about({ErrorKind::kUsage, can.error().message,
                               "name a new file, or an earlier report, in a directory you may write to"});
}

// What the agents of a fan-out are told: the files and variables of this machine have been read.
Request for_nodes(Request request, const Environment& devices, const Environment& set) {
  request.hosts = Request().hosts;
  request.env_files.clear();
  request.env.clear();
  for (const auto& variable : devices) request.env.emplace_back(variable);
  for (const auto& variable : set) request.env.emplace_back(variable);
  return request;
}

// What follows from the request alone.
job::JobSpec spec_of(const Request& request) {
  job::JobSpec job;
  job.flavor = request.flavor;
  job.log_threshold = request.log_threshold;
  job.events_on_console = request.events_on_console;
  job.events_file = request.events_file;
  job.ranked = request.ranked;
  job.role = request.role;
  job.virtual_local_rank = request.virtual_local_rank;
  job.binding = request.binding;
  job.max_restarts = request.max_restarts;
  job.crash_loop = request.crash_loop;
  job.shutdown_timeout = request.shutdown_timeout;
  job.keep_children = request.keep_children;
  job.signals_text = request.signals_text;
  job.signals_to_handle = request.signals;
  return job;
}

Position position_of(const Request& request, const Nodes& nodes, const Assignment* agent) {
  Position position;
  position.agent = agent;
  position.from_here = nodes.fan_out() != nullptr;
  position.elsewhere = position.from_here && !nodes.fan_out()->adapter->is_local();
  position.alone = agent == nullptr && std::holds_alternative<std::monostate>(nodes.start);
  position.simulated = simulated_nodes(request);
  return position;
}

void put_job(Nodes& nodes, job::JobSpec job, JobPlan& plan) {
  if (auto* fan_out = std::get_if<FanOut>(&nodes.start)) {
    fan_out->job = std::move(job);
    plan.start = std::move(*fan_out);
  } else if (auto* symmetric = std::get_if<Symmetric>(&nodes.start)) {
    symmetric->job = std::move(job);
    plan.start = std::move(*symmetric);
  } else {
    plan.start = std::move(job);
  }
}

Outcome make_plan(const Request& asked, const Known& known, const Assignment* agent) {
  Notes notes(agent != nullptr);
  Settled settled{asked, std::nullopt, false};
  Nodes nodes;
  MUSTER_TRY_VOID(check_interface(asked, known));
  if (agent != nullptr) {
    nodes = member_nodes(asked, *agent);
  } else {
    MUSTER_TRY_VOID(refuse_deep_nesting(known.plain()));
    MUSTER_TRY_VOID(check_hosts_in_front(asked, known));
    MUSTER_TRY(nodes, plan_nodes(settled, known, notes));
  }
  const Request& request = settled.request;
  const Position position = position_of(request, nodes, agent);
  if (request.env_diff && nodes.symmetric() != nullptr)
    return Error{ErrorKind::kUsage, "--env-diff compares nodes from one place, and here each runs its own muster",
                 "run it once, with --hosts"};

  JobPlan plan;
  plan.env_diff = request.env_diff;
  plan.mode_why = nodes.why;
  MUSTER_TRY(plan.record, plan_record(request, position, nodes, known));
  job::JobSpec job = spec_of(request);
  job.host = agent != nullptr ? agent->host : known.plain().host;

  // A launcher only sees whether the set-up makes sense: the nodes that have workers do it.
  MUSTER_TRY(environment::Setup setup, read_set_up(request, known, notes));
  if (!position.from_here && !setup.empty() && !known.plain().left_by_set_up) {
    if (agent != nullptr) MUSTER_TRY_VOID(check_devices(setup, job.host, known));
    return SetUp{setup, job.host, *request.join_timeout, request.log_threshold};
  }
  if (position.from_here) plan.for_nodes = for_nodes(request, nodes.devices, setup.set);
  check_temporary_directory(request, agent != nullptr, known, notes);

  std::optional<container::Prepared> inside;
  if (request.container.given()) {
    MUSTER_TRY(container::Spec spec, plan_container(request, position, known, notes));
    if (position.from_here) {  // those who run the workers prepare
      inside.emplace().plan.spec = spec;
      inside->python = known.variable("PYTHON_EXEC").value_or("python");
    } else if (!known.plain().container) {
      MUSTER_TRY(MakeContainer needed, container_to_make(request, spec, job.host, position, setup.set, known));
      return needed;
    } else {
      inside = known.plain().container;
    }
    job.container = inside->plan;
  }

  MUSTER_TRY(const Workers workers, plan_workers(settled, position, known, notes));
  job.workers = workers.count;
  plan.workers_given = workers.given;
  MUSTER_TRY(Program program, plan_program(request, position, inside ? &*inside : nullptr, job.host, known));
  job.command = std::move(program.command);
  job.torch_version = program.torch_version;
  if (auto* fan_out = std::get_if<FanOut>(&nodes.start)) fan_out->description.script = std::move(program.script);
  job.store_host = store_host(request, program.old_torch);
  if (position.alone) {
    MUSTER_TRY(nodes.meeting, plan_meeting(settled, known, notes));
  }
  job.rdzv_backend = nodes.meeting.backend;
  job.run_id = nodes.meeting.run_id;
  job.master_addr = nodes.meeting.master_addr;
  job.master_port = nodes.meeting.master_port;
  if (agent == nullptr) {  // an agent's launcher writes it
    job.report_file = *request.report;
    MUSTER_TRY_VOID(check_report(request, known));
  }
  MUSTER_TRY(job.output, plan_output(request, position, job.workers, notes));
  if (!request.env_diff)
    job.scheduler_job = cluster::scheduler_job([&](const std::string& name) { return known.variable(name); });
  MUSTER_TRY(job.stdin_spec, plan_stdin(request, position, job.workers));
  plan.given_environment = without_token(known.plain().environment);
  job.environment = worker_environment(request, position, job.workers, known, notes);
  job.open_files = known.plain().descriptor_limit;
  MUSTER_TRY_VOID(plan_token(settled, nodes, known, notes));
  job.membership = nodes.membership;
  // Workers that host the store themselves cannot have the port at which the nodes meet.
  if (nodes.symmetric() != nullptr && job.rdzv_backend == "static")
    job.membership->store_on_coordinator_port = job.store_host == job::StoreHost::kAgent;
  if (request.ours() && position.alone && !plan.env_diff && job.log_threshold <= LogLevel::kDebug)
    say_decisions(request, job, known, notes);
  put_job(nodes, std::move(job), plan);
  plan.notes = notes.take();
  return plan;
}

}  // namespace

Outcome plan(const Request& request, const Facts& facts, const Assignment* agent) {
  const Known known(facts);
  Outcome outcome = make_plan(request, known, agent);
  if (known.missing()) return *known.missing();
  return outcome;
}

job::JobSpec& JobPlan::job() {
  if (auto* fan_out = std::get_if<FanOut>(&start)) return fan_out->job;
  if (auto* symmetric = std::get_if<Symmetric>(&start)) return symmetric->job;
  return std::get<job::JobSpec>(start);
}

std::string Known::temporary_directory() const {
  const std::string given = variable("TMPDIR").value_or("");
  return given.starts_with('/') && get<bool>(Topic::kIsDirectory, given) ? given : "/tmp";
}

void forget_after_set_up(Facts& facts) {
  for (Topic topic : {Topic::kGpus, Topic::kPython, Topic::kTorch, Topic::kProgram, Topic::kIsDirectory})
    std::erase_if(facts.answers, [topic](const auto& entry) { return entry.first.topic == topic; });
}

// A worker costs its pidfd, two streams with their spools or log files, its pipes while it starts, and two
// connections to the store; a node three connections, and the process and pipes that lead to it.
Descriptors descriptors(const JobPlan& plan) {
  constexpr uint64_t kWorker = 10, kNode = 8, kOwn = 64, kStoreClients = 65536;
  const job::JobSpec& job = plan.job();
  if (const FanOut* spec = plan.fan_out())
    return {kNode * spec->hosts.size() + kOwn, 0, fmt::format("{} nodes", spec->hosts.size())};
  return {kWorker * static_cast<uint64_t>(job.workers) + kOwn, job.membership ? kStoreClients : 0,
          fmt::format("{} workers", job.workers)};
}

Result<void> check_descriptors(const Descriptors& descriptors, uint64_t limit) {
  if (limit >= descriptors.needed) return {};
  return Error{ErrorKind::kUsage,
               fmt::format("{} need {} file descriptors and this process may open {}", descriptors.what,
                           descriptors.needed, limit),
               fmt::format("raise the hard limit with 'ulimit -Hn {0}' as root (LimitNOFILE={0} in a systemd unit, "
                           "nofile in /etc/security/limits.conf), or start fewer",
                           descriptors.needed)};
}

}  // namespace muster::plan
