#include "muster/container/commands.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/container/inside.h"
#include "muster/container/runtimes.h"

namespace muster::container {
namespace {

constexpr std::string_view kPythonLine = "muster-python ";
constexpr std::string_view kVariablesLine = "muster-variables";

// "export NAME='…'" and "export NAME" (dash, busybox), "declare -x NAME="…"" (bash).
std::string_view exported_name(std::string_view line) {
  for (std::string_view beginning : {"export ", "declare -x "}) {
    if (!line.starts_with(beginning)) continue;
    line.remove_prefix(beginning.size());
    return line.substr(0, line.find('='));
  }
  return {};
}

std::string kept_directory(const Plan& plan) { return plan.node.storage + "/" + plan.spec.name; }

}  // namespace

SignalWay signal_way(Kind kind) {
  switch (kind) {
    case Kind::kPodman:
      return SignalWay::kLeaderInside;
    case Kind::kApptainer:
      return SignalWay::kGroupButLeader;
    default:
      return SignalWay::kGroup;
  }
}

bool says_signals_as_codes(Kind kind) { return kind == Kind::kPodman; }

Words storage_question(const Plan& plan) {
  switch (plan.spec.kind) {
    case Kind::kEnroot:
      return enroot::storage_question(plan);
    case Kind::kPodman:
      return podman::storage_question(plan);
    default:
      return {};
  }
}

std::string read_storage(Kind kind, const process::CommandOutput& answer) {
  return kind == Kind::kEnroot ? enroot::read_storage(answer) : podman::read_storage(answer);
}

Existence existence(const Plan& plan) {
  return plan.spec.kind == Kind::kPodman ? podman::existence(plan) : Existence{.path = kept_directory(plan)};
}

std::string making_name(const Plan& plan) {
  std::string host = plan.node.host;
  std::replace_if(
      host.begin(), host.end(), [](char c) { return !is_name_character(c); }, '-');
  const std::string name = fmt::format("{}{}{}", plan.spec.name, kMaking, host);
  return plan.spec.kind == Kind::kPodman ? name : "." + name;
}

std::vector<Words> creation(const Plan& plan) {
  switch (plan.spec.kind) {
    case Kind::kEnroot:
      return enroot::creation(plan);
    case Kind::kApptainer:
      return apptainer::creation(plan);
    case Kind::kPodman:
      return podman::creation(plan);
    case Kind::kCharliecloud:
      return charliecloud::creation(plan);
  }
  return {};
}

Words naming(const Plan& plan) { return plan.spec.kind == Kind::kPodman ? podman::naming(plan) : Words{}; }

Words removal(const Plan& plan, const std::string& making) {
  if (plan.spec.kind == Kind::kPodman) return podman::removal(plan, making);
  // An image may have directories that their owner cannot write to.
  constexpr const char* kScript = "rm -rf -- \"$0\" 2>/dev/null || { chmod -R u+rwX -- \"$0\"; rm -rf -- \"$0\"; }";
  return {"sh", "-c", kScript, plan.node.storage + "/" + making};
}

Location location(const Plan& plan) {
  switch (plan.spec.kind) {
    case Kind::kEnroot:
      return {.place = {Place::Form::kName, plan.spec.name}};
    case Kind::kPodman:
      return podman::location(plan);
    default:
      return {.place = {Place::Form::kDirectory, kept_directory(plan)}};
  }
}

Fetching fetching(const Plan& plan) { return plan.spec.kind == Kind::kPodman ? podman::fetching(plan) : Fetching{}; }

CommandLine worker_command(const Plan& plan, const Worker& worker) {
  switch (plan.spec.kind) {
    case Kind::kEnroot:
      return enroot::worker_command(plan, worker);
    case Kind::kApptainer:
      return apptainer::worker_command(plan, worker);
    case Kind::kPodman:
      return podman::worker_command(plan, worker);
    case Kind::kCharliecloud:
      return charliecloud::worker_command(plan, worker);
  }
  return {};
}

CommandLine probe_command(const Plan& plan, const Environment& environment, const std::string& python) {
  // Built-in commands alone: a small image has little else.
  const std::string wanted = python.empty() ? "" : fmt::format("command -v {} || ", shell_quote(python));
  const std::string script = fmt::format("echo \"{}$({}command -v python || command -v python3)\"; echo {}; export -p",
                                         kPythonLine, wanted, kVariablesLine);
  const Worker worker{
      .argv = {"/bin/sh", "-c", script}, .environment = environment, .from_node = environment, .bare = true};
  return worker_command(plan, worker);
}

Words list_leftovers(const Plan& plan) {
  return plan.spec.kind == Kind::kPodman ? podman::list_leftovers(plan) : Words{};
}

Words remove_leftovers(const Plan& plan, const Words& ids) {
  return plan.spec.kind == Kind::kPodman ? podman::remove_leftovers(plan, ids) : Words{};
}

Words release(const Plan& plan) { return plan.spec.kind == Kind::kPodman ? podman::release(plan) : Words{}; }

Probe read_probe(std::string_view output) {
  Probe probe;
  bool variables = false;
  for (std::string_view line : split(output, '\n')) {
    if (line.starts_with(kPythonLine)) probe.python = std::string(trim(line.substr(kPythonLine.size())));
    if (line == kVariablesLine) variables = true;
    if (std::string_view name = exported_name(line); variables && is_plain_name(name)) probe.variables.emplace(name);
  }
  return probe;
}

}  // namespace muster::container
