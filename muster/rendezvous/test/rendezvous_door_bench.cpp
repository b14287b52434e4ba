// What the coordinator's door costs: N agents connect at once from another process, prove themselves, say one message
// and are answered.     usage: rendezvous_door_bench [agents [at once]]
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "muster/net/interfaces.h"
#include "muster/net/socket.h"
#include "muster/rendezvous/acceptor.h"

namespace {

using namespace muster;
using namespace muster::rendezvous;

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// All agents, in one process; only so many of them connect at a time, as one process is slower than many nodes are.
class Agents {
 public:
  Agents(int count, int at_once, uint16_t port, const job::Token& token)
      : agents_(static_cast<size_t>(count)), at_once_(at_once), left_(count) {
    address_ = *net::parse_address("127.0.0.1", port);
    options_.token = token;
  }

  bool run() {
    for (int i = 0; i < at_once_; ++i) start_next();
    return loop_.run_until(Deadline::in(std::chrono::seconds(60)));
  }

 private:
  struct Agent {
    std::unique_ptr<Connector> connector;
    std::unique_ptr<Channel> channel;
  };

  void start_next() {
    if (next_ == agents_.size()) return;
    Agent& agent = agents_[next_++];
    agent.connector =
        Connector::start(loop_, {address_}, options_, std::chrono::seconds(5), Deadline::in(std::chrono::seconds(60)),
                         [this, &agent](Result<std::unique_ptr<Channel>> made) { joined(agent, std::move(made)); });
  }

  void joined(Agent& agent, Result<std::unique_ptr<Channel>> made) {
    if (!made) fail(made.error());
    agent.channel = std::move(*made);
    Channel::Handlers handlers;
    handlers.received = [this](std::string_view) {
      start_next();
      if (--left_ == 0) loop_.stop();
    };
    handlers.closed = fail;
    agent.channel->resume_on(loop_, std::move(handlers));
    agent.channel->send(std::string(100, 'j'));
  }

  [[noreturn]] static void fail(const Error& why) {
    fmt::print("{}\n", why.text());
    std::exit(1);
  }

  net::EventLoop loop_;
  net::Address address_;
  Channel::Options options_;
  std::vector<Agent> agents_;
  int at_once_;
  int left_;
  size_t next_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  int count = argc > 1 ? std::atoi(argv[1]) : 10'000;
  int at_once = argc > 2 ? std::atoi(argv[2]) : 1000;
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  auto listener = net::listen_tcp({});
  if (!listener) return 1;
  job::Token token = job::Token::random();
  pid_t child = ::fork();
  if (child == 0) return Agents(count, at_once, listener->port, token).run() ? 0 : 1;

  net::EventLoop loop;
  Log log = Log::to_stderr();
  std::vector<std::unique_ptr<Channel>> members;
  int gone = 0;
  TimePoint last = Clock::now();
  double joined_cpu = 0;
  Acceptor::Handlers handlers;
  handlers.joined = [&](std::unique_ptr<Channel> channel) {
    Channel* member = channel.get();
    members.push_back(std::move(channel));
    Channel::Handlers theirs;
    theirs.received = [&, member](std::string_view message) {
      member->send(message);
      last = Clock::now();
      joined_cpu = cpu_seconds();
    };
    theirs.closed = [&](const Error&) {
      if (++gone == count) loop.stop();
    };
    member->resume_on(loop, std::move(theirs));
  };
  AcceptorOptions options;
  options.token = token;
  Acceptor acceptor(loop, log, options, std::move(handlers));
  TimePoint begin = Clock::now();
  double cpu = cpu_seconds();
  acceptor.listen(std::move(listener->fd));
  bool all = loop.run_until(Deadline::in(std::chrono::seconds(60)));
  int status = 0;
  ::waitpid(child, &status, 0);
  fmt::print("{} agents in {:.3f} s, {:.1f} us of the door's CPU each, {} thrown out on the way\n", members.size(),
             std::chrono::duration<double>(last - begin).count(), 1e6 * (joined_cpu - cpu) / count,
             acceptor.strangers_dropped());
  return all && status == 0 ? 0 : 1;
}
