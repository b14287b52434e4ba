#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "muster/base/strings.h"
#include "muster/base/usage_error.h"
#include "muster/cli/request.h"
#include "muster/cli/values.h"
#include "muster/cluster/adapters.h"
#include "muster/cluster/scheduler_job.h"
#include "muster/net/address.h"
#include "muster/plan/plan.h"

namespace muster::cli::test {

using Words = std::vector<std::string>;
using plan::Answer;
using plan::Assignment;
using plan::JobPlan;
using plan::Note;
using plan::PathKind;
using plan::Topic;

// A machine made up for a test: 16 usable cores of 24, no GPU, Python 3 with torch 2.13, one script and some other
// files.
struct Machine {
  std::map<std::string, std::string> variables;
  process::GpuCount gpus;
  std::optional<std::string> python = "/usr/bin/python3";
  std::optional<process::TorchVersion> torch = process::TorchVersion{2, 13, "2.13.0"};
  std::map<std::string, PathKind> files = {
      {"train.py", PathKind::kFile},        {"tool", PathKind::kExecutable},
      {"tool.py", PathKind::kExecutable},   {"pkg", PathKind::kPackage},
      {"dir", PathKind::kDirectory},        {"app.pyz", PathKind::kZip},
      {"secret.py", PathKind::kUnreadable}, {"/closed/train.py", PathKind::kForbidden},
      {"script", PathKind::kFile},          {"./bin/x", PathKind::kExecutable},
      {"hello", PathKind::kMusterScript}};
  std::map<std::string, std::string> programs = {
      {"hostname", "/bin/hostname"}, {"ssh", "/bin/ssh"}, {"tool", "./tool"}};
  std::optional<uint16_t> taken_port;
  uint64_t descriptor_limit = 1 << 20;
  std::map<std::string, std::string> texts;  // files and what they say
  std::string text_on_stdin;
  std::optional<Environment> job_environment;
  std::optional<std::string> key;  // ~/.config/muster/key
  mutable bool key_made = false;
  bool has_munge = false;
  std::optional<std::string> slurm_address;  // of any node
  Environment left_by_set_up;                // what prologues and the like leave
  std::optional<Error> broken_set_up;
  mutable std::vector<environment::Setup> set_ups;              // those that were done
  std::string image_python = "/opt/bin/python";                 // of every image
  mutable std::optional<container::Request> container_request;  // what was asked for

  std::optional<std::string> get(const std::string& name) const {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  }
  GetEnv getenv() const {
    return [this](const std::string& name) { return get(name); };
  }
  Environment environment() const {
    Environment all;
    for (const auto& variable : variables) all.add(variable);
    return all;
  }
  Result<std::string> text(const std::string& path) const {
    auto found = texts.find(path);
    if (found == texts.end()) return Error{ErrorKind::kSystem, path + ": No such file or directory", {}};
    return found->second;
  }
  cluster::ReadFile read_file() const {
    return [this](const std::string& path) { return text(path); };
  }

  plan::Facts facts() const {
    plan::Facts facts;
    facts.environment = environment();
    facts.host = net::hostname();
    facts.uuid = "00000000-0000-4000-8000-0000000000ff";
    facts.working_directory = "/home/ada";
    facts.descriptor_limit = 1024;
    facts.here = cluster::detect(getenv(), read_file());
    return facts;
  }

  Result<std::string> find_program(const std::string& name) const {
    if (auto found = programs.find(name); found != programs.end()) return found->second;
    return Error{ErrorKind::kNotFound, "'" + name + "' not found", {}};
  }
  Answer find_python() const {
    if (auto exec = get("PYTHON_EXEC")) return *exec;
    if (python) return *python;
    return Error{ErrorKind::kUsage, "no python on PATH", "install it"};
  }
  Answer token_file(const std::string& path) const {
    auto found = texts.find(path);
    if (found == texts.end()) return usage_error("'{}' cannot be read: No such file or directory", path);
    if (trim(found->second).empty()) return usage_error("'{}' is empty", path);
    return std::string(trim(found->second));
  }
  int free_port(const std::string& range) const {
    const auto ports = parse_port_range(range);
    for (int port = ports->first; port <= ports->last; ++port)
      if (taken_port != port) return port;
    return 0;
  }
  Answer user_key(bool make) const {
    if (key || !make) return key.value_or("");
    key_made = true;
    return std::string("made");
  }
  Answer tools(const std::string& name) const {
    for (const cluster::Adapter* adapter : cluster::adapters()) {
      if (adapter->name() != name) continue;
      auto find = [this](const std::string& program) { return find_program(program); };
      auto found = adapter->find_tools(getenv(), find, read_file());
      return found ? Answer(*found) : Answer(found.error());
    }
    return usage_error("there is no adapter {}", name);
  }
  static Answer is_loopback(const std::string& wanted) {
    if (wanted == "eth0" || wanted == "10.0.0.0/8") return false;
    if (wanted == "lo") return true;
    return usage_error("there is no {} here", wanted);
  }
  static Answer either(Result<std::string> result) {
    if (!result) return result.error();
    return *result;
  }

  Answer answer(const plan::Question& question) const {
    const std::string& subject = question.subject;
    const bool in_proc = subject.starts_with("/proc/");
    switch (question.topic) {
      case Topic::kGpus:
        return gpus;
      case Topic::kUsableCores:
        return 16;
      case Topic::kAffinityCpus:
        return 24;
      case Topic::kPython:
        return find_python();
      case Topic::kTorch:
        return torch;
      case Topic::kProgram:
        return either(find_program(subject));
      case Topic::kPathKind:
        return files.contains(subject) ? files.at(subject) : PathKind::kMissing;
      case Topic::kIsDirectory:
        return !subject.starts_with("/missing");
      case Topic::kFullHostname:
        return std::string("node7.example.org");
      case Topic::kCanCreate:
        if (in_proc) return usage_error("'{}' cannot be written: No such file or directory", subject);
        return true;
      case Topic::kIsThisMachine:
        if (subject.ends_with(".invalid")) return Error{ErrorKind::kPeer, "cannot resolve '" + subject + "'", {}};
        return subject != "10.9.9.9";
      case Topic::kSlurmAddress:
        return slurm_address.value_or("");
      case Topic::kPortIsFree:
        if (std::to_string(taken_port.value_or(0)) == subject)
          return usage_error("port {} is taken by pid 1 (init)", subject);
        return true;
      case Topic::kFreePort:
        return free_port(subject);
      case Topic::kIsLoopback:
        return is_loopback(subject);
      case Topic::kFile:
        return either(text(subject));
      case Topic::kTokenFile:
        return token_file(subject);
      case Topic::kStdin:
        return text_on_stdin;
      case Topic::kFirstEnvironment:
        return job_environment;
      case Topic::kSchedulerJob:
        return cluster::scheduler_job(getenv(), read_file());
      case Topic::kTools:
        return tools(subject);
      case Topic::kHasMunge:
        return has_munge;
      case Topic::kUserKey:
        return user_key(subject == "make");
      case Topic::kCanRecord:
        if (in_proc) return usage_error("{}: No such file or directory", subject);
        return true;
    }
    return false;
  }

  // The steps of a plan, as cli::make_plan() does them.
  Result<JobPlan> plan_of(const job::Request& request, const Assignment* agent) const {
    plan::Facts known = facts();
    for (;;) {
      plan::Outcome outcome = plan::plan(request, known, agent);
      if (auto* error = std::get_if<Error>(&outcome)) return *error;
      if (auto* plan = std::get_if<JobPlan>(&outcome)) {
        const plan::Descriptors needed = plan::descriptors(*plan);
        if (!request.dry_run)
          MUSTER_TRY_VOID(plan::check_descriptors(needed, std::min(needed.needed, descriptor_limit)));
        return *plan;
      }
      if (const auto* question = std::get_if<plan::Question>(&outcome)) {
        known.answers.emplace(*question, answer(*question));
      } else if (const auto* step = std::get_if<plan::SetUp>(&outcome)) {
        set_ups.push_back(step->setup);
        if (broken_set_up) return *broken_set_up;
        known.left_by_set_up = known.environment;
        known.left_by_set_up->set_all(left_by_set_up);
        known.left_by_set_up->set_all(step->setup.set);
        plan::forget_after_set_up(known);
      } else {
        container_request = std::get<plan::MakeContainer>(outcome).request;
        const container::Spec& spec = container_request->spec;
        if (spec.image == "missing") return usage_error("{}: there is no image missing", container_request->host);
        container::Prepared& ready = known.container.emplace();
        ready.plan.spec = spec;
        ready.python = image_python;
      }
    }
  }

  Result<Asking> ask(Verb verb, const Words& words) const {
    MUSTER_TRY(Parsed parsed, parse_arguments(verb, words, getenv()));
    return make_request(verb, parsed, getenv());
  }
  Result<JobPlan> plan(Verb verb, const Words& words) const {
    MUSTER_TRY(Asking asking, ask(verb, words));
    MUSTER_TRY(JobPlan plan, plan_of(asking.request, nullptr));
    plan.notes.insert(plan.notes.begin(), asking.notes.begin(), asking.notes.end());
    return plan;
  }
  // As the agent of a launcher that has read these words.
  Result<JobPlan> plan_as_member(Verb verb, const Words& words, Assignment assignment) const {
    MUSTER_TRY(Asking asking, ask(verb, words));
    assignment.run_id = *asking.request.rdzv_id;
    return plan_of(asking.request, &assignment);
  }
  job::JobSpec run(const Words& words) const { return job(Verb::kRun, words); }
  job::JobSpec torchrun(const Words& words) const { return job(Verb::kTorchrun, words); }
  job::JobSpec job(Verb verb, const Words& words) const {
    auto planned = plan(verb, words);
    if (planned) return planned->job();
    ADD_FAILURE() << planned.error().text();
    return {};
  }
  std::string error(const Words& words, Verb verb = Verb::kRun) const {
    auto planned = plan(verb, words);
    return planned ? "accepted" : planned.error().text();
  }
};

inline std::optional<std::string> variable(const job::JobSpec& job, const std::string& name) {
  return job.environment.get(name);
}

}  // namespace muster::cli::test
