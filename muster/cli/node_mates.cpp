#include "muster/cli/node_mates.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <thread>

#include "muster/process/cpus.h"

namespace muster::cli {
namespace {

constexpr auto kLookPeriod = std::chrono::milliseconds(20);

// Of the abstract kind: it has no file, and goes with the process.
struct Address {
  sockaddr_un socket{};
  socklen_t length = 0;
};

Address address_of(const std::string& name) {
  Address address;
  address.socket.sun_family = AF_UNIX;
  const size_t size = std::min(name.size(), sizeof address.socket.sun_path - 1);
  std::memcpy(address.socket.sun_path + 1, name.data(), size);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return address;
}

const sockaddr* generic(const Address& address) { return reinterpret_cast<const sockaddr*>(&address.socket); }

bool is_ours(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::getuid();
}

Fd new_socket() { return Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

}  // namespace

std::string mates_name(const cluster::Surroundings& here) {
  constexpr size_t kMost = 24;  // of each, for the whole to fit into an address
  return fmt::format("muster-task-{}-{}.{}-{}", ::getuid(), here.job_id.substr(0, kMost), here.step_id.substr(0, kMost),
                     here.node_name.substr(0, kMost));
}

std::optional<std::string> take_cores_of_mates(const cluster::Surroundings& here) {
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
      "lets "
      "none have those of the others; write srun --ntasks-per-node=1 --cpus-per-task={}",
      got.size(), wanted.size(), wanted.size());
}

Result<NodeMates> NodeMates::open(const std::string& name, int others) {
  Fd listener = new_socket();
  const Address address = address_of(name);
  if (!listener || ::bind(listener.get(), generic(address), address.length) != 0 ||
      ::listen(listener.get(), others) != 0) {
    Error error = system_error(errno, fmt::format("cannot tell the other {} tasks of this node", others));
    error.hint = "start one task a node: srun --ntasks-per-node=1";
    return error;
  }
  return NodeMates(std::move(listener), Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), others);
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
  const Address address = address_of(name);
  Fd first = new_socket();
  while (::connect(first.get(), generic(address), address.length) != 0) {
    // Not there yet; a backlog that is full for a moment; or no such thing.
    if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR) return system_error(errno, "the node's first task");
    if (deadline.passed())
      return Error{ErrorKind::kTimeout, "the first task of this node has not appeared",
                   "start one task a node: srun --ntasks-per-node=1"};
    std::this_thread::sleep_for(kLookPeriod);
  }
  if (!is_ours(first.get())) return Error{ErrorKind::kPeer, "another user poses as the first task of this node", {}};
  unsigned char code = 0;
  ssize_t got = 0;
  do {
    got = ::read(first.get(), &code, 1);
  } while (got < 0 && errno == EINTR);
  if (got == 1) return static_cast<int>(code);
  return Error{ErrorKind::kPeer, "the first task of this node ended without a word", {}};
}

}  // namespace muster::cli
