#include "muster/launcher/status_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <list>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/base/socket_directory.h"
#include "muster/base/usage_error.h"
#include "muster/rendezvous/words.h"

namespace muster::launcher {
namespace {

using Json = nlohmann::ordered_json;

std::string_view part_name(rendezvous::Part part) {
  switch (part) {
    case rendezvous::Part::kIdle:
      return "idle";
    case rendezvous::Part::kRuns:
      return "running";
    case rendezvous::Part::kStops:
      return "stopping";
    case rendezvous::Part::kDone:
      return "done";
    case rendezvous::Part::kFailed:
      return "failed";
  }
  return "";
}

std::string_view state_name(const rendezvous::State& state) {
  switch (state.round_state) {
    case rendezvous::RoundState::kNone:
      return "waiting";
    case rendezvous::RoundState::kOpening:
      return "starting";
    case rendezvous::RoundState::kRunning:
      return "running";
    case rendezvous::RoundState::kStopping:
      return "stopping";
  }
  return "";
}

std::map<rendezvous::NodeId, int> ranks_of_members(const rendezvous::State& state) {
  std::map<rendezvous::NodeId, int> first_ranks;
  int rank = 0;
  for (rendezvous::NodeId member : state.members) {
    first_ranks[member] = rank;
    auto found = state.nodes.find(member);
    if (found != state.nodes.end()) rank += found->second.join.workers;
  }
  return first_ranks;
}

constexpr size_t kMostReaders = 64;
constexpr auto kReaderTime = std::chrono::seconds(5);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

// Whoever asked, and what it has not read yet.
struct Reader {
  Fd socket;
  std::string text;
  size_t sent = 0;
  net::EventLoop::TimerId patience = 0;
};

double unix_time(TimePoint time) {
  auto age = Clock::now() - time;
  auto then = std::chrono::system_clock::now() - age;
  return std::chrono::duration<double>(then.time_since_epoch()).count();
}

}  // namespace

std::vector<rendezvous::NodeId> listed_nodes(const rendezvous::State& state) {
  std::vector<rendezvous::NodeId> nodes;
  for (rendezvous::NodeId member : state.members)
    if (state.nodes.contains(member)) nodes.push_back(member);
  const std::set<rendezvous::NodeId> members(nodes.begin(), nodes.end());
  const auto spares = static_cast<ptrdiff_t>(nodes.size());
  for (const auto& [id, node] : state.nodes)
    if (!members.contains(id)) nodes.push_back(id);
  auto place = [&](rendezvous::NodeId id) { return state.nodes.at(id).join.position.value_or(INT_MAX); };
  std::stable_sort(nodes.begin() + spares, nodes.end(), [&](auto a, auto b) { return place(a) < place(b); });
  return nodes;
}

std::vector<rendezvous::Loss> still_gone(const rendezvous::State& state) {
  std::vector<rendezvous::Loss> gone = state.gone;
  for (const auto& [id, node] : state.nodes) {
    // A member has been there all the time: who is gone is another one on its machine.
    if (state.round >= 0 && node.last_round == state.round) continue;
    std::erase_if(gone, [&, &host = node.join.host](const rendezvous::Loss& loss) { return loss.host == host; });
  }
  return gone;
}

class StatusServer::Impl {
 public:
  Impl(net::EventLoop& loop, const job::JobSpec& job, const rendezvous::Engine& engine, const Head& head,
       std::string mode)
      : loop_(loop), job_(job), engine_(engine), head_(head), mode_(std::move(mode)) {}
  ~Impl() {
    while (!readers_.empty()) leave(readers_.begin());
    loop_.cancel(listen_again_);
    if (!listener_) return;
    loop_.unwatch(listener_.get());
    ::unlink(path_.c_str());
    ::rmdir(path_.substr(0, path_.rfind('/')).c_str());  // refused while another job has its socket there
  }

  Result<void> listen() {
    MUSTER_TRY(std::string directory, make_socket_directory());
    path_ = fmt::format("{}/{}.sock", directory, engine_.options().job);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path_.size() >= sizeof address.sun_path) return usage_error("{} is too long for a socket", path_);
    std::memcpy(address.sun_path, path_.c_str(), path_.size());
    listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener_ || ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_.get(), 16) != 0) {
      Error error = system_error(errno, path_);
      listener_.reset();
      return error;
    }
    watch_listener();
    return {};
  }

 private:
  void watch_listener() {
    loop_.watch(listener_.get(), EPOLLIN, [this](uint32_t) { answer(); });
  }

  void answer() {
    Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
      // Out of descriptors or memory: whoever asks waits in the backlog, and asking again at once would spin.
      loop_.unwatch(listener_.get());
      listen_again_ = loop_.call_after(kAcceptPause, [this] { watch_listener(); });
      return;
    }
    if (readers_.size() == kMostReaders) leave(readers_.begin());
    const auto reader = readers_.insert(readers_.end(), {.socket = std::move(client), .text = document()});
    reader->patience = loop_.call_after(kReaderTime, [this, reader] { leave(reader); });
    loop_.watch(reader->socket.get(), EPOLLOUT, [this, reader](uint32_t) { send_some(reader); });
  }

  void send_some(std::list<Reader>::iterator reader) {
    const ssize_t sent = ::send(reader->socket.get(), reader->text.data() + reader->sent,
                                reader->text.size() - reader->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (sent > 0) reader->sent += static_cast<size_t>(sent);
    if (sent <= 0 || reader->sent == reader->text.size()) leave(reader);
  }

  void leave(std::list<Reader>::iterator reader) {
    loop_.cancel(reader->patience);
    loop_.unwatch(reader->socket.get());
    readers_.erase(reader);
  }

  std::string document() const {
    const rendezvous::State& state = engine_.state();
    Json nodes = Json::array();
    const std::map<rendezvous::NodeId, int> first_ranks = ranks_of_members(state);
    for (rendezvous::NodeId id : listed_nodes(state)) {
      auto first_rank = first_ranks.find(id);
      nodes.push_back(describe(id, state.nodes.at(id),
                               first_rank == first_ranks.end() ? std::nullopt : std::optional(first_rank->second)));
    }
    Json json = {{"job", engine_.options().job},
                 {"run_id", job_.run_id},
                 {"pid", ::getpid()},
                 {"mode", mode_},
                 {"state", state_name(state)},
                 {"since", unix_time(began_)},
                 {"round", std::max(state.round, 0)},
                 {"restarts", state.restarts},
                 {"max_restarts", job_.max_restarts},
                 {"message", head_.last_reason()},
                 {"nodes", nodes},
                 {"lost", rendezvous::loss_texts(still_gone(state))}};
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  // `first_rank`: of a member of the round.
  Json describe(rendezvous::NodeId id, const rendezvous::Node& node, std::optional<int> first_rank) const {
    const bool member = first_rank.has_value();
    Json workers = Json::array();
    const std::vector<int>& pids = engine_.pids(id);
    const std::string address = engine_.address(id);
    for (size_t i = 0; i < pids.size(); ++i)
      workers.push_back({{"rank", first_rank.value_or(0) + static_cast<int>(i)}, {"local_rank", i}, {"pid", pids[i]}});
    return {{"host", node.join.host},
            {"state", member ? part_name(node.part) : "spare"},
            {"address", address.empty() ? Json() : Json(address)},
            {"agent_pid", node.join.agent_pid},
            {"group_rank", member && node.group_rank ? Json(*node.group_rank) : Json()},
            {"workers", workers},
            {"since", unix_time(node.joined)}};
  }

  net::EventLoop& loop_;
  const job::JobSpec& job_;
  const rendezvous::Engine& engine_;
  const Head& head_;
  std::string mode_;
  std::string path_;
  Fd listener_;
  net::EventLoop::TimerId listen_again_ = 0;
  std::list<Reader> readers_;
  TimePoint began_ = Clock::now();
};

std::unique_ptr<StatusServer> StatusServer::open(net::EventLoop& loop, Log& log, const job::JobSpec& job,
                                                 const rendezvous::Engine& engine, const Head& head, std::string mode) {
  auto impl = std::make_unique<Impl>(loop, job, engine, head, std::move(mode));
  if (auto listening = impl->listen(); !listening)
    log.debug("no `muster status` for this job: {}", listening.error().text());
  return std::unique_ptr<StatusServer>(new StatusServer(std::move(impl)));
}

StatusServer::StatusServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StatusServer::~StatusServer() = default;

}  // namespace muster::launcher
