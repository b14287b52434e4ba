#include "muster/cli/env_diff.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "muster/base/environment.h"
#include "muster/base/fd.h"
#include "muster/cli/commands.h"
#include "muster/cli/facts.h"
#include "muster/environment/difference.h"
#include "muster/job/token.h"
#include "muster/job/worker_env.h"

namespace muster::cli {
namespace {

constexpr auto kTime = std::chrono::seconds(60);  // for Python on a slow file system
constexpr size_t kMostBytes = 16 << 20;           // that a node may say
constexpr const char* kKeyVariable = "MUSTER_FINGERPRINT_KEY";
static_assert(std::tuple_size_v<environment::FingerprintKey> == job::Token::kSize);

// What muster itself gives to workers says nothing about a node.
std::vector<std::string> own_variables() {
  std::vector<std::string> names = {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"};
  for (const job::Variable& variable : job::declared_variables())
    if (variable.set_by != job::kSetByYou) names.emplace_back(variable.name);
  return names;
}

int compare(std::vector<environment::Fingerprint> nodes, bool json) {
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.host < b.host; });
  const auto found = environment::differences(nodes, own_variables());
  const int printed = print(json ? differences_json(nodes, found) : differences_text(nodes, found));
  return printed != 0 || !found.empty() ? 1 : 0;
}

// Ours alone: a worker would not find it.
environment::FingerprintKey take_key() {
  environment::FingerprintKey key = environment::random_fingerprint_key();
  auto given = job::Token::parse(environment_variable(kKeyVariable).value_or(""));
  if (given) std::copy_n(given->data(), key.size(), key.begin());
  ::unsetenv(kKeyVariable);
  return key;
}

}  // namespace

int fingerprint_command() {
  const auto host = environment_variable("MUSTER_HOST").value_or("");
  const environment::FingerprintKey key = take_key();
  const auto print_of_node = environment::take_fingerprint(host, own_environment(), key, Deadline::in(kTime));
  return print(encode(print_of_node) + "\n");
}

void run_fingerprint(job::JobSpec& job) {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  job.command = {};
  job.command.program = program;
  job.command.argv = {program, std::string(kFingerprintWord)};
  job.command.template_from = job.command.argv.size();
  job.command.entrypoint = "--env-diff";
  const job::Token key = job::Token::derive(job.membership->token.hex(), "--env-diff");
  job.environment.add(kKeyVariable, key.hex());
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

int env_diff_alone(const job::JobSpec& job, bool json) {
  const environment::FingerprintKey key = environment::random_fingerprint_key();
  return compare({environment::take_fingerprint(job.host, job.environment, key, Deadline::in(kTime))}, json);
}

}  // namespace muster::cli
