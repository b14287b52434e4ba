#include "muster/cluster/slurm/node_mates.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <thread>

#include "muster/base/socket_directory.h"
#include "muster/base/strings.h"
#include "muster/process/cpus.h"

namespace muster::cluster::slurm {
namespace {

constexpr auto kLookPeriod = std::chrono::milliseconds(20);

Fd open_directory(const std::string& path) {
  return Fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// The path of a directory may be longer than an address can be, so that the directory goes by its descriptor. Nothing if
// the name is too long.
std::optional<sockaddr_un> address_in(const Fd& directory, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}/{}", directory.get(), name);
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

bool connects(const Fd& socket, const sockaddr_un& address) {
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool binds(const Fd& socket, const sockaddr_un& address) {
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool is_ours(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::getuid();
}

Fd new_socket() { return Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

// A muster that was killed leaves its socket behind.
void remove_if_stale(const sockaddr_un& address) {
  const Fd socket = new_socket();
  if (socket && !connects(socket, address) && errno == ECONNREFUSED) ::unlink(address.sun_path);
}

// Of the first task, in whichever of the directories it is. `error`: why there is none so far.
Fd connect_to_first(const std::string& name, int& error) {
  error = ENOENT;
  for (const std::string& directory : socket_directories()) {
    if (!check_socket_directory(directory)) continue;
    const Fd opened = open_directory(directory);
    const auto address = address_in(opened, name);
    if (!opened || !address) continue;
    Fd socket = new_socket();
    if (socket && connects(socket, *address)) return socket;
    if (errno != ENOENT) error = errno;
  }
  return {};
}

}  // namespace

std::string mates_name(const Surroundings& here) {
  constexpr size_t kMost = 16;               // of each, for the path of the socket to fit into an address
  const std::string& node = here.node_name;  // names of nodes differ at their end
  return fmt::format("task-{}.{}-{}", here.job_id.substr(0, kMost), here.step_id.substr(0, kMost),
                     node.substr(node.size() - std::min(node.size(), kMost)));
}

std::optional<std::string> take_cores_of_mates(const Surroundings& here) {
  const std::vector<int> own = process::affinity_cpus();
  std::vector<int> wanted;
  std::ranges::set_union(own, here.bound_cpus, std::back_inserter(wanted));
  if (wanted == own) return std::nullopt;
  (void)process::set_affinity(wanted);  // what came of it counts
  return about_cores(wanted, process::affinity_cpus());
}

std::optional<std::string> about_cores(const std::vector<int>& wanted, const std::vector<int>& got) {
  if (std::ranges::includes(got, wanted)) return std::nullopt;
  return fmt::format(
      "the workers of this node share {} of the {} CPUs that the step has here: Slurm has bound them to tasks, and "
      "lets no task have those of the others; write srun --ntasks-per-node=1 --cpus-per-task={}",
      got.size(), wanted.size(), wanted.size());
}

NodeMates::OwnFile::OwnFile(std::string path) : path_(std::move(path)), owner_(::getpid()) {}

NodeMates::OwnFile::~OwnFile() {
  if (!path_.empty() && owner_ == ::getpid()) ::unlink(path_.c_str());
}

Result<NodeMates> NodeMates::open(const std::string& name, int others) {
  auto failed = [&](Error error) {
    error.message = fmt::format("cannot tell the other {} tasks of this node: {}", others, error.message);
    error.hint = "start one task per node: srun --ntasks-per-node=1";
    return error;
  };
  auto directory = make_socket_directory();
  if (!directory) return failed(directory.error());
  const std::string path = *directory + "/" + name;
  const Fd opened = open_directory(*directory);
  if (!opened) return failed(system_error(errno, *directory));
  const auto address = address_in(opened, name);
  if (!address) return failed(system_error(ENAMETOOLONG, path));
  Fd listener = new_socket();
  bool bound = listener && binds(listener, *address);
  if (!bound && errno == EADDRINUSE) {
    remove_if_stale(*address);
    bound = binds(listener, *address);
  }
  if (!bound || ::listen(listener.get(), others) != 0) return failed(system_error(errno, path));
  return NodeMates(path, std::move(listener), Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), others);
}

bool NodeMates::wait_for_one(Deadline deadline) const {
  pollfd waiting{.fd = listener_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, deadline.poll_timeout()) == 1;
}

void NodeMates::tell(int code, Deadline deadline) {
  const auto byte = static_cast<unsigned char>(code);
  spare_.reset();
  for (int told = 0; told < others_ && !deadline.passed();) {
    pollfd waiting{.fd = listener_.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, deadline.poll_timeout());
    if (ready == 0 || (ready < 0 && errno != EINTR)) return;
    if (ready < 0) continue;
    Fd mate(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!mate) std::this_thread::sleep_for(kLookPeriod);  // the whole machine may have no descriptor left
    if (!mate || !is_ours(mate.get())) continue;
    (void)::send(mate.get(), &byte, 1, MSG_NOSIGNAL);
    ++told;
  }
}

Result<int> wait_for_first_task(const std::string& name, Deadline deadline) {
  for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_IGN);
  int error = 0;
  Fd first;
  while (!(first = connect_to_first(name, error))) {
    // Not there yet, left over from a muster that was killed, or with a backlog that is full for a moment.
    if (error != ENOENT && error != ECONNREFUSED && error != EAGAIN && error != EINTR)
      return system_error(error, "the node's first task");
    if (deadline.passed())
      return Error{ErrorKind::kTimeout,
                   fmt::format("the first task of this node has not appeared in {}", join(socket_directories(), ", ")),
                   "start one task per node: srun --ntasks-per-node=1"};
    std::this_thread::sleep_for(kLookPeriod);
  }
  if (!is_ours(first.get())) return Error{ErrorKind::kPeer, "another user poses as the first task of this node", {}};
  unsigned char code = 0;
  ssize_t got = 0;
  do {
    got = ::read(first.get(), &code, 1);
  } while (got < 0 && errno == EINTR);
  if (got == 1) return static_cast<int>(code);
  return Error{ErrorKind::kPeer, "the first task of this node ended without telling its exit code", {}};
}

}  // namespace muster::cluster::slurm
