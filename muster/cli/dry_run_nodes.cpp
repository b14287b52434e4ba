#include <nlohmann/json.hpp>

#include "muster/base/strings.h"
#include "muster/cli/dry_run.h"
#include "muster/container/spec.h"
#include "muster/environment/assignments.h"
#include "muster/job/worker_env.h"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;
using launcher::FanOut;
using launcher::Symmetric;

constexpr std::string_view kThreads = "OMP_NUM_THREADS";

const rendezvous::MembershipOptions& membership_of(const plan::JobPlan& plan) {
  return plan.fan_out() != nullptr ? plan.fan_out()->membership : plan.symmetric()->membership;
}

std::string nodes_wanted(const rendezvous::MembershipOptions& options) {
  return options.min_nodes == options.max_nodes ? std::to_string(options.max_nodes)
                                                : fmt::format("{} to {}", options.min_nodes, options.max_nodes);
}

// Of host `index`: "0-3" where every host before it says how many workers it has.
std::string ranks_of(const FanOut& spec, const plan::JobPlan& plan, bool count_known, size_t index) {
  if (index >= static_cast<size_t>(spec.membership.max_nodes)) return "spare";
  int first = 0;
  for (size_t i = 0; i <= index; ++i) {
    if (!spec.hosts[i].workers && !count_known) return "known when it has joined";
    const int workers = spec.hosts[i].workers.value_or(plan.job().workers);
    if (i == index) return workers == 1 ? std::to_string(first) : fmt::format("{}-{}", first, first + workers - 1);
    first += workers;
  }
  return "";
}

// The same for people: "ranks 0-3", "rank 4", "spare".
std::string ranks_text(const std::string& ranks) {
  if (ranks == "spare") return ranks;
  const bool one = ranks.find_first_not_of("0123456789") == std::string::npos;
  return fmt::format("rank{} {}", one ? "" : "s", ranks);
}

std::string hosting(const Symmetric& spec) {
  switch (spec.hosts) {
    case Symmetric::Hosts::kYes:
      return spec.doubt.empty() ? "this node hosts the job" : spec.doubt;
    case Symmetric::Hosts::kGuess:
      return "this node hosts the job, or another one on this machine";
    case Symmetric::Hosts::kNo:
      break;
  }
  return "another node hosts the job";
}

// A variable that muster may set on a node: its rule in short.
std::string interface_rule(const Environment& own, const std::string& interface, const char* name) {
  if (auto yours = own.get(name)) return fmt::format("{} (yours)", *yours);
  if (!interface.empty()) return fmt::format("the interface of {}", interface);
  return std::string_view(name).starts_with("GLOO")
             ? "set where a node's own name leads nowhere, to the interface that reaches the others"
             : "not set";
}

const std::string& interface_of(const plan::JobPlan& plan) {
  const auto* fan_out = plan.fan_out();
  return fan_out != nullptr ? fan_out->interface : plan.job().membership->interface;
}

// What stands for a variable that only the nodes know; nothing for one that is known here.
std::string_view known_later(const plan::JobPlan& plan, std::string_view name) {
  for (std::string_view each : {"RANK", "LOCAL_RANK", "ROLE_RANK", "MUSTER_WORKER"})
    if (name == each) return "<of each worker>";
  for (std::string_view each : {"GROUP_RANK", "LOCAL_WORLD_SIZE", "MUSTER_HOST"})
    if (name == each) return "<of each node>";
  for (std::string_view each : {"WORLD_SIZE", "ROLE_WORLD_SIZE", "GROUP_WORLD_SIZE"})
    if (name == each) return "<known when all have joined>";
  return name == "MASTER_ADDR" && plan.job().master_addr.empty() ? "<the node of rank 0>" : "";
}

// What every worker finds beyond the environment around muster.
Environment environment_of_workers(const plan::JobPlan& plan) {
  const job::JobSpec& job = plan.job();
  const job::Round round{
      .master_port = job.master_port, .master_addr = job.master_addr, .job = std::string(kChosenAtStart)};
  Environment all = added_variables(plan, job::worker_environment(job, round, {}));
  for (const auto& [name, value] : plan.for_nodes.env) all.set(name, value.value_or(""));
  if (plan.fan_out() != nullptr && !job.environment.has(kThreads) && !all.has(kThreads))
    all.set(kThreads, "<cores of the node, divided among its workers>");
  const bool agreed = job.membership && job.membership->store_on_coordinator_port;
  Environment shown;
  for (const auto& [name, value] : all) {
    const std::string later(known_later(plan, name));
    const bool fixed = name == "MASTER_PORT" && agreed;
    shown.add(name, fixed ? std::to_string(plan.symmetric()->port) : later.empty() ? value : later);
  }
  return shown;
}

// The image, and in what it is run.
std::string container_of(const plan::JobPlan& plan) {
  const container::Spec& spec = plan.job().container->spec;
  const std::string& what = spec.image.empty() ? spec.name : spec.image;
  return spec.program.empty() ? fmt::format("{}, in the container runtime of each node", what)
                              : fmt::format("{}, in {}", what, container::name_of(spec.kind));
}

struct Line {
  std::string title, text;
};

std::vector<Line> settings(const plan::JobPlan& plan, const Environment& own) {
  const rendezvous::MembershipOptions& options = membership_of(plan);
  auto seconds = [](Duration time) { return fmt::format("{:g} s", std::chrono::duration<double>(time).count()); };
  return {{"id", plan.job().run_id},
          {"join timeout", seconds(options.join_timeout)},
          {"lease", seconds(options.lease)},
          {"restarts", std::to_string(options.max_restarts)},
          {"GLOO_SOCKET_IFNAME", interface_rule(own, interface_of(plan), "GLOO_SOCKET_IFNAME")},
          {"NCCL_SOCKET_IFNAME", interface_rule(own, interface_of(plan), "NCCL_SOCKET_IFNAME")}};
}

std::string as_text(const plan::JobPlan& plan, const Environment& own, bool count_known) {
  const rendezvous::MembershipOptions& options = membership_of(plan);
  std::string text;
  if (const auto* fan_out = plan.fan_out()) {
    text = fmt::format("fan-out to {} of {} {}{} ({})\n", nodes_wanted(options), fan_out->hosts.size(),
                       fan_out->adapter->is_local() ? "simulated node" : "host", fan_out->hosts.size() == 1 ? "" : "s",
                       plan.mode_why);
    for (size_t i = 0; i < fan_out->hosts.size(); ++i)
      text += fmt::format("  {}  {}\n", fan_out->hosts[i].name, ranks_text(ranks_of(*fan_out, plan, count_known, i)));
  } else {
    const auto& spec = *plan.symmetric();
    text = fmt::format("symmetric, {} nodes ({})\n  {} worker{} on this node\n  meet at {}: {}\n",
                       nodes_wanted(options), plan.mode_why, plan.job().workers, plan.job().workers == 1 ? "" : "s",
                       plan.job().membership->coordinators[0], hosting(spec));
    text += plan.job().membership->rank ? fmt::format("  this is node {}\n", *plan.job().membership->rank)
                                        : "  ranks are known when all have joined\n";
    text += plan.job().membership->open_to_all ? "  no secret: any process that reaches the port can join\n" : "";
  }
  text += fmt::format("  command  {}\n", shell_quote(plan.job().command.argv));
  if (plan.job().container) text += fmt::format("  container  {}\n", container_of(plan));
  for (const Line& line : settings(plan, own)) text += fmt::format("  {}: {}\n", line.title, line.text);
  text += "  environment\n";
  for (const auto& [name, value] : environment_of_workers(plan)) text += fmt::format("    {}={}\n", name, value);
  return text;
}

std::string as_json(const plan::JobPlan& plan, const Environment& own, bool count_known) {
  const rendezvous::MembershipOptions& options = membership_of(plan);
  Json json;
  const auto* fan_out = plan.fan_out();
  json["mode"] = fan_out != nullptr ? "fanout" : "symmetric";
  json["why"] = plan.mode_why;
  json["min_nodes"] = options.min_nodes;
  json["max_nodes"] = options.max_nodes;
  json["command"] = plan.job().command.argv;
  if (fan_out != nullptr) {
    json["hosts"] = Json::array();
    for (size_t i = 0; i < fan_out->hosts.size(); ++i) {
      const cluster::Host& host = fan_out->hosts[i];
      json["hosts"].push_back({{"host", host.name},
                               {"workers", host.workers  ? Json(*host.workers)
                                           : count_known ? Json(plan.job().workers)
                                                         : Json()},
                               {"ranks", ranks_of(*fan_out, plan, count_known, i)}});
    }
  } else {
    json["endpoint"] = plan.job().membership->coordinators[0];
    json["hosts_job"] = hosting(*plan.symmetric());
    json["node_rank"] = plan.job().membership->rank ? Json(*plan.job().membership->rank) : Json();
    json["workers"] = plan.job().workers;
    json["secret"] = !plan.job().membership->open_to_all;
  }
  auto seconds = [](Duration time) { return std::chrono::duration<double>(time).count(); };
  json["id"] = plan.job().run_id;
  json["join_timeout"] = seconds(options.join_timeout);
  json["lease"] = seconds(options.lease);
  json["max_restarts"] = options.max_restarts;
  for (const char* name : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"})
    json[name] = interface_rule(own, interface_of(plan), name);
  if (plan.job().container) json["container"] = container_of(plan);
  json["environment"] = Json::object();
  for (const auto& [name, value] : environment_of_workers(plan)) json["environment"][name] = value;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string dry_run_nodes(const plan::JobPlan& plan, const Environment& own, bool json) {
  const auto* fan_out = plan.fan_out();
  // What this machine counts says nothing of others, unless a number was typed.
  const bool count_known = fan_out == nullptr || fan_out->adapter->is_local() || plan.workers_given;
  return json ? as_json(plan, own, count_known) : as_text(plan, own, count_known);
}

}  // namespace muster::cli
