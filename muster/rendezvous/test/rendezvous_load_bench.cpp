// What a coordinator costs with many nodes: N agents in another process join as real ones do (handshake, Join, their
// warden's heartbeat connection), get their ranks and pass rounds, each ended by a worker that fails, the last by
// success. Prints one JSON object.     usage: rendezvous_load_bench [agents [rounds [at once]]]
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "muster/net/interfaces.h"
#include "muster/net/socket.h"
#include "muster/rendezvous/coordinator.h"
#include "muster/rendezvous/heartbeat.h"
#include "muster/rendezvous/member.h"
#include "muster/rendezvous/words.h"

namespace {

using namespace muster;
using namespace muster::rendezvous;

constexpr int kWorkersPerNode = 8;
constexpr size_t kOutcomeSize = 400;
constexpr auto kPatience = std::chrono::seconds(120);
constexpr int kSpareDescriptors = 64;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

double cpu_seconds(int whose = RUSAGE_SELF) {
  rusage usage{};
  ::getrusage(whose, &usage);
  auto count = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return count(usage.ru_utime) + count(usage.ru_stime);
}

size_t resident_bytes() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

int raise_descriptor_limit() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  return static_cast<int>(std::min<rlim_t>(files.rlim_max, 1 << 20));
}

struct Load {
  int agents = 10'000;
  int hearts = 10'000;  // of them, with a heartbeat connection
  int rounds = 10;
  // Joining: one process is slower than many nodes are, and the door throws out who keeps it waiting.
  int at_once = 128;
  uint16_t port = 0;
  job::Token token;
};

// --- agents ---------------------------------------------------------------------------------------------------------

class Agents;

// One agent and its warden.
class Agent {
 public:
  Agent(Agents& all, int number) : all_(all), number_(number) {}
  void join();
  void fail_a_worker();
  void succeed();
  void beat();

 private:
  void told(const Message& message);
  void connect_heart();
  std::string next_beat();
  net::Address coordinator() const;

  Agents& all_;
  int number_;
  int round_ = -1;
  int first_rank_ = 0;
  NodeId node_ = 0;
  uint64_t sequence_ = 0;
  std::unique_ptr<Member> member_;
  std::unique_ptr<Connector> connector_;
  std::unique_ptr<Channel> heart_;
};

class Agents {
 public:
  explicit Agents(const Load& load) : load_(load) {
    for (int i = 0; i < load.agents; ++i) agents_.emplace_back(*this, i);
  }

  bool run() {
    beat_some();
    for (int i = 0; i < load_.at_once; ++i) start_next();
    return loop_.run_until(Deadline::in(kPatience)) && left_ == 0;
  }

  void start_next() {
    if (next_ < agents_.size()) agents_[next_++].join();
  }

  // Everybody runs: time for what ends the round.
  void started(int round) {
    if (++started_ < load_.agents) return;
    started_ = 0;
    if (round + 1 < load_.rounds) return agents_[agents_.size() / 2].fail_a_worker();
    for (Agent& agent : agents_) agent.succeed();
  }

  void ended() {
    if (--left_ == 0) loop_.stop();
  }

  // A slice of them at a time, so that every one beats once a period.
  void beat_some() {
    loop_.call_after(kBeatPeriod / kSlices, [this] { beat_some(); });
    slice_ = (slice_ + 1) % kSlices;
    for (size_t i = slice_; i < agents_.size(); i += kSlices) agents_[i].beat();
  }

  [[noreturn]] static void fail(const std::string& why) {
    fmt::print(stderr, "{}\n", why);
    std::_Exit(1);
  }

  const Load& load_;
  net::EventLoop loop_;

 private:
  static constexpr size_t kSlices = 50;

  std::vector<Agent> agents_;
  size_t slice_ = 0;
  size_t next_ = 0;
  int started_ = 0;
  int left_ = load_.agents;
};

// Each at an address of its own: one address has not ports enough.
net::Address Agent::coordinator() const {
  return *net::parse_address(fmt::format("127.0.{}.{}", 1 + number_ / 200, 1 + number_ % 200), all_.load_.port);
}

void Agent::join() {
  Join join;
  join.host = fmt::format("n{}", number_);
  join.workers = kWorkersPerNode;
  join.position = number_;
  join.agent_pid = 1000 + number_;
  join.addresses = {fmt::format("10.1.{}.{}", number_ / 250, 1 + number_ % 250),
                    fmt::format("fd00::{:x}", 1 + number_)};
  Member::Handlers handlers;
  handlers.told = [this](const Message& message) { told(message); };
  handlers.refused = [](const Error& why) { Agents::fail(why.text()); };
  handlers.lost = [](const Error& why) { Agents::fail(why.text()); };
  member_ = std::make_unique<Member>(all_.loop_, all_.load_.token, std::vector{coordinator().text()}, std::move(join),
                                     Deadline::in(kPatience), std::move(handlers));
}

void Agent::told(const Message& message) {
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    node_ = welcome->node;
    if (number_ < all_.load_.hearts) return connect_heart();
    all_.start_next();
  } else if (const auto* open = std::get_if<OpenStore>(&message)) {
    member_->tell(StoreOpened{.round = open->round, .port = 29500, .error = {}});
  } else if (const auto* start = std::get_if<StartRound>(&message)) {
    round_ = start->round.number;
    first_rank_ = start->round.first_rank;
    std::vector<int> pids(kWorkersPerNode);
    for (int i = 0; i < kWorkersPerNode; ++i) pids[static_cast<size_t>(i)] = 10'000 + i;
    member_->tell(RoundStarted{.round = round_, .pids = std::move(pids)});
    all_.started(round_);
  } else if (const auto* stop = std::get_if<StopRound>(&message)) {
    member_->tell(RoundEnded{
        .round = stop->round, .succeeded = false, .outcomes = std::string(kOutcomeSize, 'o'), .start_error = {}});
  } else if (std::holds_alternative<EndJob>(message)) {
    all_.loop_.defer([this] {
      member_.reset();
      all_.ended();
    });
  }
}

void Agent::fail_a_worker() { member_->tell(WorkerFailed{.round = round_, .rank = first_rank_, .what = "SIGKILL"}); }

void Agent::succeed() {
  member_->tell(
      RoundEnded{.round = round_, .succeeded = true, .outcomes = std::string(kOutcomeSize, 'o'), .start_error = {}});
}

void Agent::connect_heart() {
  Channel::Options options;
  options.token = all_.load_.token;
  options.purpose = Purpose::kHeartbeat;
  options.greeting = [this] { return next_beat(); };
  connector_ = Connector::start(all_.loop_, {coordinator()}, options, kPatience, Deadline::in(kPatience),
                                [this](Result<std::unique_ptr<Channel>> channel) {
                                  if (!channel) Agents::fail(channel.error().text());
                                  heart_ = *std::move(channel);
                                  Channel::Handlers handlers;
                                  handlers.received = [](std::string_view) {};
                                  handlers.closed = [](const Error&) {};
                                  heart_->resume_on(all_.loop_, std::move(handlers));
                                  all_.start_next();
                                });
}

void Agent::beat() {
  if (heart_) heart_->send(next_beat());
}

std::string Agent::next_beat() {
  return encode(
      Beat{.node = node_, .sequence = ++sequence_, .sent = Clock::now().time_since_epoch().count(), .paused = false});
}

// --- the coordinator ------------------------------------------------------------------------------------------------

// A point in the job: what it took until then.
struct Mark {
  double time = 0;
  double cpu = 0;      // of the process
  double own_cpu = 0;  // without the thread that answers beats, of which there are more the longer it takes
};

class Client final : public CoordinatorClient {
 public:
  void joined(const Node& /*node*/) override {
    if (joined_count++ == 0) began_ = Clock::now();
  }
  void gone(const Node& node, const Loss& loss) override {
    if (gone_count++ == 0) fmt::print(stderr, "{} is gone: {}\n", node.join.host, cause_text(loss));
  }
  void changed(const State& /*state*/, const Decision& decision) override {
    if (decision.kind == Decision::Kind::kOpenRound && all_joined.time == 0) all_joined = mark();
  }
  void round_started(const State& /*state*/) override {
    if (first_round.time == 0) first_round = mark();
  }
  void refused(const std::string& who, const std::string& why) override {
    fmt::print(stderr, "{} is refused: {}\n", who, why);
  }
  void worker_failed(const Node& /*node*/, const WorkerFailed& /*failed*/) override {}
  Failure judge(int round, const std::vector<NodeOutcomes>& outcomes) override {
    Failure failure;
    failure.fingerprint = fmt::format("{} of {}", round, outcomes.size());
    return failure;
  }
  std::string ended(const Decision& decision, const std::vector<NodeOutcomes>& /*outcomes*/) override {
    end = mark();
    ending = decision.ending;
    return {};
  }

  int joined_count = 0;
  int gone_count = 0;
  Mark all_joined, first_round, end;
  job::Ending ending = job::Ending::kMusterFailed;

 private:
  Mark mark() const { return {seconds(Clock::now() - began_), cpu_seconds(), cpu_seconds(RUSAGE_THREAD)}; }

  TimePoint began_;
};

int coordinate(const Load& load, Fd listener) {
  net::EventLoop loop;
  Log log = Log::to_stderr(LogLevel::kWarning);
  Client client;
  CoordinatorOptions options;
  options.token = load.token;
  options.membership.min_nodes = options.membership.max_nodes = options.membership.expected = load.agents;
  options.membership.max_restarts = load.rounds;
  options.membership.crash_loop = 0;
  options.membership.lease = kPatience;  // a busy machine is not what is measured
  const size_t before = resident_bytes();
  Coordinator coordinator(loop, log, options, client);
  coordinator.listen(std::move(listener));
  coordinator.on_deserted([&] { loop.stop(); });
  const bool deserted = loop.run_until(Deadline::in(kPatience));
  const size_t memory = resident_bytes() - before;
  fmt::print(
      R"({{"agents": {}, "heartbeat_connections": {}, "rounds": {}, "ending": "{}", "join_s": {:.4f}, )"
      R"("join_cpu_s": {:.4f}, "first_round_s": {:.4f}, "total_s": {:.4f}, "cpu_s": {:.4f}, "own_cpu_s": {:.4f}, )"
      R"("memory_bytes": {}}})"
      "\n",
      load.agents, load.hearts, load.rounds, job::ending_name(client.ending), client.all_joined.time,
      client.all_joined.cpu, client.first_round.time, client.end.time, client.end.cpu, client.end.own_cpu, memory);
  return deserted && client.ending == job::Ending::kSucceeded ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Load load;
  auto argument = [&](int index, int otherwise) { return argc > index ? std::atoi(argv[index]) : otherwise; };
  load.agents = argument(1, load.agents);
  load.rounds = argument(2, load.rounds);
  load.at_once = std::min(argument(3, load.at_once), load.agents);
  const int descriptors = raise_descriptor_limit() - kSpareDescriptors;
  if (load.agents > descriptors) {
    fmt::print(stderr, "{} agents need more descriptors than the limit of this process allows\n", load.agents);
    return 2;
  }
  load.hearts = std::min(load.agents, descriptors - load.agents);
  load.token = job::Token::random();
  auto listener = net::listen_tcp({});
  if (!listener) return 1;
  load.port = listener->port;
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    listener->fd.reset();
    const bool ok = Agents(load).run();
    std::_Exit(ok ? 0 : 1);
  }
  const int code = coordinate(load, std::move(listener->fd));
  int status = 0;
  ::waitpid(child, &status, 0);
  return code == 0 && status == 0 ? 0 : 1;
}
