#include "muster/cli/env_diff.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "muster/agent/worker_env.h"
#include "muster/base/fd.h"
#include "muster/cli/commands.h"
#include "muster/cli/facts.h"
#include "muster/environment/difference.h"
#include "muster/process/own_environment.h"

namespace muster::cli {
namespace {

constexpr auto kTime = std::chrono::seconds(60);  // for Python on a slow file system
constexpr size_t kMostBytes = 16 << 20;           // that a node may say

// What muster itself gives to workers says nothing about a node.
std::vector<std::string> own_variables() {
  std::vector<std::string> names = {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"};
  for (const agent::Variable& variable : agent::declared_variables())
    if (variable.set_by != agent::kSetByYou) names.emplace_back(variable.name);
  return names;
}

int compare(std::vector<environment::Fingerprint> nodes, bool json) {
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.host < b.host; });
  const auto found = environment::differences(nodes, own_variables());
  const int printed = print(json ? differences_json(nodes, found) : differences_text(nodes, found));
  return printed != 0 || !found.empty() ? 1 : 0;
}

}  // namespace

int fingerprint_command() {
  const auto host = environment_variable("MUSTER_HOST").value_or("");
  return print(encode(environment::take_fingerprint(host, process::own_environment(), Deadline::in(kTime))) + "\n");
}

agent::Command fingerprint_worker() {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  agent::Command command;
  command.program = program;
  command.argv = {program, std::string(kFingerprintWord)};
  command.template_from = command.argv.size();
  command.entrypoint = "--env-diff";
  return command;
}

int env_diff(launcher::FanOut& spec, const std::function<int()>& run, bool json) {
  std::map<std::string, std::string> said;
  spec.on_stdout = [&](const std::string& host, const std::string& bytes) {
    if (said[host].size() < kMostBytes) said[host] += bytes;
  };
  if (const int code = run(); code != 0) return code;
  std::vector<environment::Fingerprint> nodes;
  for (const auto& [host, text] : said) {
    auto node = environment::decode_fingerprint(text);
    if (!node) {
      const std::string line = fmt::format("muster: error: {}: {}\n", host, node.error().text());
      (void)write_all(STDERR_FILENO, line.data(), line.size());
      return kMusterFailed;
    }
    node->host = host;
    nodes.push_back(*std::move(node));
  }
  return compare(std::move(nodes), json);
}

int env_diff_alone(const agent::JobSpec& job, bool json) {
  return compare({environment::take_fingerprint(job.host, job.environment, Deadline::in(kTime))}, json);
}

}  // namespace muster::cli
