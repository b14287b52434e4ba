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

#include "muster/agent/supervisor.h"
#include "muster/base/environment.h"
#include "muster/base/fd.h"
#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/cli/script.h"
#include "muster/cli/set_up.h"
#include "muster/cluster/adapters.h"
#include "muster/environment/record.h"
#include "muster/job/worker_env.h"
#include "muster/net/address.h"
#include "muster/net/interfaces.h"
#include "muster/net/resolve.h"
#include "muster/net/socket.h"
#include "muster/process/cpus.h"
#include "muster/process/proc.h"
#include "muster/rendezvous/munge.h"
#include "muster/rendezvous/user_key.h"

namespace muster::cli {
namespace {

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
    return starts_muster(beginning, own_file_name()) ? PathKind::kMusterScript : PathKind::kExecutable;
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

std::optional<std::string> slurm_address(const std::string& node) {
  if (net::resolve(node, 0, Deadline::in(kHostTime))) return std::nullopt;
  auto address = cluster::slurm::adapter().node_address(node, Deadline::in(kHostTime));
  return address && *address != node ? std::optional(*std::move(address)) : std::nullopt;
}

Result<bool> is_loopback(const std::string& wanted) {
  MUSTER_TRY(std::vector<net::InterfaceAddress> chosen, net::select_interfaces(net::interface_addresses(), wanted));
  return std::all_of(chosen.begin(), chosen.end(), [](const auto& each) { return each.loopback; });
}

Result<std::string> read_text(const std::string& path) {
  constexpr size_t kMost = 64 << 20;  // a hostfile of a million lines
  return muster::read_file(path, kMost);
}

Result<std::string> read_stdin() {
  std::string text;
  std::array<char, 64 << 10> bytes;
  while (text.size() <= kLongestScript) {
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

Result<container::Prepared> prepare_container(container::Request request, LogLevel threshold, int launcher) {
  const bool by_launcher = launcher >= 0;
  request.launcher = launcher;
  const std::string begin =
      by_launcher ? std::string(agent::kSettingUp) : fmt::format("muster: setting up {}: ", request.host);
  if (by_launcher || threshold <= LogLevel::kInfo)
    request.say = [begin](const std::string& what) {
      const std::string text = fmt::format("{}{}\n", begin, what);
      (void)write_all(STDERR_FILENO, text.data(), text.size());
    };
  return container::prepare(request);
}

std::string working_directory() {
  std::error_code error;
  const auto path = std::filesystem::current_path(error);
  return error ? "/" : path.string();
}

}  // namespace

bool starts_muster(std::string_view beginning, std::string_view own_name) {
  if (!beginning.starts_with("#!")) return false;
  std::string line(beginning.substr(2, beginning.find('\n') - 2));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\t' || c == '\r' || c == '"' || c == '\''; }, ' ');
  const std::vector<std::string_view> words = split(line, ' ');
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    for (std::string_view option : {"-S", "--split-string="})
      if (word.starts_with(option)) word.remove_prefix(option.size());
    const std::string_view name = word.substr(word.rfind('/') + 1);
    return name == "muster" || (!name.empty() && name == own_name);
  });
}

void use_environment(const Environment& environment) {
  ::clearenv();
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);  // a bad name is left out
}

Facts real_facts(int launcher) {
  Facts facts;
  facts.environment = own_environment();
  facts.getenv = environment_variable;
  facts.gpus = [] { return process::count_gpus(environment_variable); };
  facts.usable_cores = [] { return process::usable_cores(); };
  facts.physical_cores = [] { return process::physical_cores(); };
  facts.gpu_peer_access = [] { return process::have_peer_access(); };
  facts.affinity_cpus = [] { return static_cast<int>(process::affinity_cpus().size()); };
  facts.find_python = [] { return process::find_python(environment_variable); };
  facts.find_program = [](const std::string& name) {
    return process::find_program(name, environment_variable("PATH").value_or(process::kDefaultPath));
  };
  facts.find_torch = [](const std::string& python) { return process::find_torch(python, environment_variable); };
  facts.path_kind = path_kind;
  facts.fully_qualified_hostname = [] { return net::fully_qualified_hostname(Deadline::in(net::kOwnNameTime)); };
  facts.uuid = random_uuid;
  facts.can_create = can_create;
  facts.is_this_machine = is_this_machine;
  facts.slurm_address = slurm_address;
  facts.check_port = check_port;
  facts.is_loopback = is_loopback;
  facts.read_file = read_text;
  facts.read_stdin = read_stdin;
  facts.job_environment = [](const cluster::Adapter& scheduler) { return scheduler.first_environment(); };
  facts.munge = [] {
    auto munge = rendezvous::Munge::open();
    return munge && munge->seal(job::Token::random(), "").ok();
  };
  facts.token_file = rendezvous::read_token_file;
  facts.user_key = [](bool make) { return rendezvous::read_user_key(rendezvous::user_key_path(), make); };
  facts.set_up = [launcher](const environment::Setup& setup, const Environment& before, const SetUpManner& manner) {
    return set_up(setup, before, manner, launcher);
  };
  facts.check_record = environment::check_record_directory;
  facts.is_directory = is_directory;
  facts.working_directory = working_directory;
  facts.prepare_container = [launcher](const container::Request& request, LogLevel threshold) {
    return prepare_container(request, threshold, launcher);
  };
  facts.descriptor_limit = descriptor_limit;
  facts.raise_descriptor_limit = raise_descriptor_limit;
  return facts;
}

}  // namespace muster::cli
