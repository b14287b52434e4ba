#include "muster/cli/facts.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "muster/agent/round_store.h"
#include "muster/base/environment.h"
#include "muster/base/fd.h"
#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/cluster/adapters.h"
#include "muster/cluster/scheduler_job.h"
#include "muster/environment/record.h"
#include "muster/job/worker_env.h"
#include "muster/net/address.h"
#include "muster/net/interfaces.h"
#include "muster/net/resolve.h"
#include "muster/net/socket.h"
#include "muster/plan/script.h"
#include "muster/process/cpus.h"
#include "muster/process/proc.h"
#include "muster/rendezvous/munge.h"
#include "muster/rendezvous/user_key.h"

namespace muster::cli {
namespace {

using plan::Answer;
using plan::PathKind;
using plan::Topic;

// For a resolver whose first server is dead: it asks the next one after five seconds, and who hosts a job depends on
// it.
constexpr auto kHostTime = std::chrono::seconds(15);

std::string beginning_of(const std::string& path) {
  constexpr size_t kEnough = 512;  // the kernel reads 256 bytes of a first line
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string bytes(kEnough, 0);
  const ssize_t got = file ? ::read(file.get(), bytes.data(), bytes.size()) : 0;
  bytes.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return bytes;
}

// A zip for Python: as it is, or behind the line that names its interpreter. Of any other interpreter (a jar, say) it is
// a program like others.
bool is_zipapp(std::string_view text) {
  if (text.starts_with("#!")) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos || text.substr(0, end).find("python") == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
  }
  return text.starts_with("PK\3\4");
}

std::string own_file_name() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).filename().string();
}

PathKind path_kind(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno == EACCES ? PathKind::kForbidden : PathKind::kMissing;
  if (S_ISDIR(status.st_mode))
    return ::access((path + "/__main__.py").c_str(), F_OK) == 0 ? PathKind::kPackage : PathKind::kDirectory;
  if (path.ends_with(".pyz")) return PathKind::kZip;
  const std::string beginning = S_ISREG(status.st_mode) ? beginning_of(path) : "";
  if (is_zipapp(beginning)) return PathKind::kZip;
  // access() says yes to everything for root where any x bit is set; a file without one is never executable.
  if (S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0)
    return plan::starts_muster(beginning, own_file_name()) ? PathKind::kMusterScript : PathKind::kExecutable;
  return ::access(path.c_str(), R_OK) == 0 ? PathKind::kFile : PathKind::kUnreadable;
}

// Why a report must not replace this file; empty if it may. A report replaces an earlier one, and nothing else.
std::string worth_keeping(const std::string& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return {};
  for (int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat own {};
    if (::fstat(stream, &own) == 0 && own.st_dev == status.st_dev && own.st_ino == status.st_ino)
      return "muster's own output goes there";
  }
  return status.st_size == 0 || beginning_of(path).starts_with('{') ? "" : "it holds something else than a report";
}

Result<void> can_create(const std::string& path) {
  auto no = [&](int reason) { return system_error(reason, fmt::format("'{}' cannot be written", path)); };
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return no(EISDIR);
    if (::access(path.c_str(), W_OK) != 0) return no(errno);
    if (std::string why = worth_keeping(path, status); !why.empty())
      return Error{ErrorKind::kUsage, fmt::format("'{}' would be overwritten: {}", path, why), {}};
    return {};
  }
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return no(errno);
  return {};
}

Result<bool> is_this_machine(const std::string& host) {
  // Its own name, whatever a resolver makes of it.
  if (host == "localhost" || host == "127.0.0.1" || host == net::hostname()) return true;
  auto addresses = net::resolve(host, 0, Deadline::in(kHostTime));
  if (!addresses && host == net::fully_qualified_hostname(Deadline::in(net::kOwnNameTime))) return true;
  if (!addresses) return std::move(addresses).error();
  return std::any_of(addresses->begin(), addresses->end(), net::is_own_address);
}

std::string slurm_address(const std::string& node) {
  if (net::resolve(node, 0, Deadline::in(kHostTime))) return {};
  auto address = cluster::slurm::adapter().node_address(node, Deadline::in(kHostTime));
  return address && *address != node ? *address : std::string();
}

Result<bool> is_loopback(const std::string& wanted) {
  MUSTER_TRY(std::vector<net::InterfaceAddress> chosen, net::select_interfaces(net::interface_addresses(), wanted));
  return std::all_of(chosen.begin(), chosen.end(), [](const auto& each) { return each.loopback; });
}

Result<std::string> read_stdin() {
  std::string text;
  std::array<char, 64 << 10> bytes;
  while (text.size() <= plan::kLongestScript) {
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got == 0) break;
    if (got > 0) text.append(bytes.data(), static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) return system_error(errno, "stdin");
  }
  return text;
}

Result<void> check_port(uint16_t port) {
  auto listener = net::listen_tcp({.port = port, .loopback_only = false, .backlog = 1});
  if (!listener) return listener.error();
  return {};
}

uint64_t descriptor_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

// 0: all of them are taken.
int free_port(std::string_view range) {
  const size_t dash = range.find('-');
  const auto number = [](std::string_view text) { return static_cast<uint16_t>(parse_int(text).value_or(0)); };
  for (uint16_t port : agent::ports_to_try({number(range.substr(0, dash)), number(range.substr(dash + 1))}))
    if (check_port(port)) return port;
  return 0;
}

Result<std::string> find_program(const std::string& name) {
  return process::find_program(name, environment_variable("PATH").value_or(process::kDefaultPath));
}

const cluster::Adapter& adapter(std::string_view name) {
  const auto& all = cluster::adapters();
  return **std::find_if(all.begin(), all.end(), [&](const auto* each) { return each->name() == name; });
}

bool has_munge() {
  auto munge = rendezvous::Munge::open();
  return munge && munge->seal(job::Token::random(), "").ok();
}

Answer user_key(bool make) {
  auto key = rendezvous::read_user_key(rendezvous::user_key_path(), make);
  if (!key) return key.error();
  return key->value_or("");
}

template <typename T>
Answer either(Result<T> result) {
  if (!result) return std::move(result).error();
  return *std::move(result);
}
Answer either(const Result<void>& result) { return result ? Answer(true) : Answer(result.error()); }

std::string working_directory() {
  std::error_code error;
  const auto path = std::filesystem::current_path(error);
  return error ? "/" : path.string();
}

}  // namespace

Result<std::string> read_text(const std::string& path) {
  constexpr size_t kMost = 64 << 20;  // a hostfile of a million lines
  return muster::read_file(path, kMost);
}

uint64_t raise_descriptor_limit(uint64_t needed) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return needed;
  if (limit.rlim_cur < needed) {
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, needed);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ::getrlimit(RLIMIT_NOFILE, &limit);
  }
  return limit.rlim_cur;
}

void use_environment(const Environment& environment) {
  ::clearenv();
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);  // a bad name is left out
}

plan::Facts own_facts() {
  plan::Facts facts;
  facts.environment = own_environment();
  facts.host = net::hostname();
  facts.uuid = random_uuid();
  facts.working_directory = working_directory();
  facts.descriptor_limit = descriptor_limit();
  facts.here = cluster::detect(environment_variable, read_text);
  return facts;
}

Answer answer(const plan::Question& question) {
  const std::string& subject = question.subject;
  switch (question.topic) {
    case Topic::kGpus:
      return process::count_gpus(environment_variable);
    case Topic::kUsableCores:
      return process::usable_cores();
    case Topic::kAffinityCpus:
      return static_cast<int>(process::affinity_cpus().size());
    case Topic::kPython:
      return either(process::find_python(environment_variable));
    case Topic::kTorch:
      return process::find_torch(subject, environment_variable);
    case Topic::kProgram:
      return either(find_program(subject));
    case Topic::kPathKind:
      return path_kind(subject);
    case Topic::kIsDirectory:
      return is_directory(subject);
    case Topic::kFullHostname:
      return net::fully_qualified_hostname(Deadline::in(net::kOwnNameTime));
    case Topic::kCanCreate:
      return either(can_create(subject));
    case Topic::kIsThisMachine:
      return either(is_this_machine(subject));
    case Topic::kSlurmAddress:
      return slurm_address(subject);
    case Topic::kPortIsFree:
      return either(check_port(static_cast<uint16_t>(parse_int(subject).value_or(0))));
    case Topic::kFreePort:
      return free_port(subject);
    case Topic::kIsLoopback:
      return either(is_loopback(subject));
    case Topic::kFile:
      return either(read_text(subject));
    case Topic::kTokenFile:
      return either(rendezvous::read_token_file(subject));
    case Topic::kStdin:
      return either(read_stdin());
    case Topic::kFirstEnvironment:
      return adapter(subject).first_environment();
    case Topic::kSchedulerJob:
      return cluster::scheduler_job(environment_variable, read_text);
    case Topic::kTools:
      return either(adapter(subject).find_tools(environment_variable, find_program, read_text));
    case Topic::kHasMunge:
      return has_munge();
    case Topic::kUserKey:
      return user_key(subject == "make");
    case Topic::kCanRecord:
      return either(environment::check_record_directory(subject));
  }
  return Error{ErrorKind::kUsage, "nobody knows", {}};
}

}  // namespace muster::cli
