#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "muster/base/strings.h"
#include "muster/base/usage_error.h"
#include "muster/cli/job_options.h"
#include "muster/environment/assignments.h"

namespace muster::cli::test {

using Words = std::vector<std::string>;

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

  Facts facts() const {
    Facts facts;
    for (const auto& variable : variables) facts.environment.add(variable);
    facts.getenv = [this](const std::string& name) -> std::optional<std::string> {
      auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    facts.gpus = [this] { return gpus; };
    facts.usable_cores = [] { return 16; };
    facts.physical_cores = [] { return 12; };
    facts.gpu_peer_access = [] { return true; };
    facts.affinity_cpus = [] { return 24; };
    facts.find_python = [this]() -> Result<std::string> {
      if (auto exec = variables.find("PYTHON_EXEC"); exec != variables.end()) return exec->second;
      if (python) return *python;
      return Error{ErrorKind::kUsage, "no python on PATH", "install it"};
    };
    facts.find_program = [this](const std::string& name) -> Result<std::string> {
      if (auto found = programs.find(name); found != programs.end()) return found->second;
      return Error{ErrorKind::kNotFound, "'" + name + "' not found", {}};
    };
    facts.find_torch = [this](const std::string&) { return torch; };
    facts.path_kind = [this](const std::string& path) {
      auto found = files.find(path);
      return found == files.end() ? PathKind::kMissing : found->second;
    };
    facts.fully_qualified_hostname = [] { return "node7.example.org"; };
    facts.uuid = [] { return "00000000-0000-4000-8000-0000000000ff"; };
    facts.can_create = [](const std::string& path) -> Result<void> {
      if (path.starts_with("/proc/")) return usage_error("'{}' cannot be written: No such file or directory", path);
      return {};
    };
    facts.is_this_machine = [](const std::string& host) -> Result<bool> {
      if (host.ends_with(".invalid")) return Error{ErrorKind::kPeer, "cannot resolve '" + host + "'", {}};
      return host != "10.9.9.9";
    };
    facts.slurm_address = [this](const std::string&) { return slurm_address; };
    facts.check_port = [this](uint16_t port) -> Result<void> {
      if (taken_port == port) return usage_error("port {} is taken by pid 1 (init)", port);
      return {};
    };
    facts.is_loopback = [](const std::string& wanted) -> Result<bool> {
      if (wanted == "eth0" || wanted == "10.0.0.0/8") return false;
      if (wanted == "lo") return true;
      return usage_error("there is no {} here", wanted);
    };
    facts.read_file = [this](const std::string& path) -> Result<std::string> {
      auto found = texts.find(path);
      if (found == texts.end()) return Error{ErrorKind::kSystem, path + ": No such file or directory", {}};
      return found->second;
    };
    facts.token_file = [this](const std::string& path) -> Result<std::string> {
      auto found = texts.find(path);
      if (found == texts.end()) return usage_error("'{}' cannot be read: No such file or directory", path);
      if (trim(found->second).empty()) return usage_error("'{}' is empty", path);
      return std::string(trim(found->second));
    };
    facts.job_environment = [this](const cluster::Adapter&) { return job_environment; };
    facts.is_directory = [](const std::string& path) { return !path.starts_with("/missing"); };
    facts.read_stdin = [this]() -> Result<std::string> { return text_on_stdin; };
    facts.munge = [this] { return has_munge; };
    facts.user_key = [this](bool make) -> Result<std::optional<std::string>> {
      if (key || !make) return key;
      key_made = true;
      return std::optional<std::string>("made");
    };
    facts.set_up = [this](const environment::Setup& setup, const Environment& before,
                          const SetUpManner&) -> Result<Environment> {
      set_ups.push_back(setup);
      if (broken_set_up) return *broken_set_up;
      Environment left = before;
      left.set_all(left_by_set_up);
      left.set_all(setup.set);
      return left;
    };
    facts.check_record = [](const std::string& directory) -> Result<void> {
      if (directory.starts_with("/proc/")) return usage_error("{}: No such file or directory", directory);
      return {};
    };
    facts.working_directory = [] { return "/home/ada"; };
    facts.prepare_container = [this](const container::Request& request, LogLevel) -> Result<container::Prepared> {
      container_request = request;
      if (request.spec.image == "missing") return usage_error("{}: there is no image missing", request.host);
      container::Prepared ready;
      ready.plan.spec = request.spec;
      ready.python = image_python;
      return ready;
    };
    facts.descriptor_limit = [] { return uint64_t{1024}; };
    facts.raise_descriptor_limit = [this](uint64_t needed) { return std::min(needed, descriptor_limit); };
    return facts;
  }

  Result<JobPlan> plan(Verb verb, const Words& words) const {
    Facts known = facts();
    auto parsed = parse_arguments(verb, words, known.getenv);
    if (!parsed) return parsed.error();
    return plan_job(verb, *parsed, known);
  }
  Result<JobPlan> plan_as_member(Verb verb, const Words& words, const Assignment& assignment) const {
    Facts known = facts();
    auto parsed = parse_arguments(verb, words, known.getenv);
    if (!parsed) return parsed.error();
    return plan_member(verb, *parsed, known, assignment);
  }
  job::JobSpec run(const Words& words) const { return job(Verb::kRun, words); }
  job::JobSpec torchrun(const Words& words) const { return job(Verb::kTorchrun, words); }
  job::JobSpec job(Verb verb, const Words& words) const {
    auto planned = plan(verb, words);
    if (planned) return planned->job;
    ADD_FAILURE() << planned.error().text();
    return {};
  }
  std::string error(const Words& words, Verb verb = Verb::kRun) const {
    auto planned = plan(verb, words);
    return planned ? "accepted" : planned.error().text();
  }
};

inline std::optional<std::string> variable(const job::JobSpec& job, const std::string& name) {
  std::optional<std::string> value;
  for (const auto& [n, v] : job.environment)
    if (n == name) value = v;
  return value;
}

}  // namespace muster::cli::test
