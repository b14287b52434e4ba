#include "muster/cluster/local/starter.h"

#include <fmt/format.h>
#include <signal.h>

#include <map>

#include "muster/cluster/link.h"

namespace muster::cluster::local {
namespace {

// For agents that are still there when the job is over, to end their workers as they should.
constexpr Duration kGrace = std::chrono::seconds(2);
// For one that is abandoned: as long as a warden cleans up at most, and a little more.
constexpr Duration kAbandonedTime = std::chrono::seconds(12);

class LocalStarter final : public Starter {
 public:
  LocalStarter(net::EventLoop& loop, std::string program, Environment environment, Handlers handlers)
      : loop_(loop),
        program_(std::move(program)),
        environment_(std::move(environment)),
        handlers_(std::move(handlers)) {}
  ~LocalStarter() override;

  void start(int position, const Host& host, std::string description) override;
  void joined(int position) override {
    if (auto found = agents_.find(position); found != agents_.end()) found->second.joined = true;
  }
  void abandon(int position) override;

 private:
  struct Agent {
    std::shared_ptr<Link> link;
    std::string last_line;  // of its stderr
    bool joined = false;
    net::EventLoop::TimerId timer = 0;  // when abandoned
  };

  void said(int position, const Link* link, std::string_view line);
  void ended(int position, const Link* link, const process::ExitStatus& status);
  void failed_later(int position, Error error);

  net::EventLoop& loop_;
  std::string program_;
  Environment environment_;
  Handlers handlers_;
  std::map<int, Agent> agents_;
  std::map<const Link*, Agent> abandoned_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // what is deferred may come after us
};

LocalStarter::~LocalStarter() {
  for (auto& [position, agent] : agents_) {
    agent.link->close_input();
    agent.link->signal(SIGTERM);
  }
  Deadline deadline = Deadline::in(kGrace);
  for (auto& [position, agent] : agents_) agent.link->wait(deadline);
  for (auto& [link, agent] : abandoned_) {
    loop_.cancel(agent.timer);
    link->wait(deadline);
  }
}

// Its warden may be about to end what the agent has left behind, and to say why: it is not killed before it could.
void LocalStarter::abandon(int position) {
  auto found = agents_.extract(position);
  if (!found) return;
  const Link* link = found.mapped().link.get();
  Agent& agent = abandoned_[link] = std::move(found.mapped());
  agent.link->close_input();
  agent.timer = loop_.call_after(kAbandonedTime, [this, link] { abandoned_.erase(link); });
}

void LocalStarter::start(int position, const Host& /*host*/, std::string description) {
  MUSTER_CHECK(!agents_.contains(position));
  process::SpawnSpec spec{.program = program_, .argv = {program_, "agent"}, .environment = environment_};
  auto self = std::make_shared<const Link*>();  // known when there is one
  auto link = Link::open(loop_, std::move(spec), Link::Kill::kAlone,
                         {.output = {},  // its greeting: we know whom we started
                          .said = [this, position, self](std::string_view line) { said(position, *self, line); },
                          .ended = [this, position, self](const auto& status) { ended(position, *self, status); }});
  if (!link) return failed_later(position, std::move(link).error());
  *self = link->get();
  (*link)->write(description);
  agents_[position].link = *std::move(link);
  if (handlers_.progress) handlers_.progress(position, {Progress::Stage::kStarting});
}

void LocalStarter::said(int position, const Link* link, std::string_view line) {
  if (!abandoned_.contains(link)) agents_[position].last_line = line;
  if (handlers_.said) handlers_.said(position, line);
}

void LocalStarter::ended(int position, const Link* link, const process::ExitStatus& status) {
  if (auto found = abandoned_.extract(link)) return loop_.cancel(found.mapped().timer);
  Agent agent = std::move(agents_[position]);
  agents_.erase(position);
  const Error error = agent_ended(status, agent.joined ? "" : agent.last_line);
  // An agent that ended by itself before it joined has said why, and would again.
  bool may_try_again = agent.joined || status.signal != 0;
  if (handlers_.failed) handlers_.failed(position, {StartCause::kAgentEnded, error, may_try_again});
}

// Never from within start(): who calls it is not ready for the answer.
void LocalStarter::failed_later(int position, Error error) {
  error.kind = ErrorKind::kSystem;  // of this machine, not of what the job is to run
  loop_.defer([this, alive = std::weak_ptr(alive_), position, error = std::move(error)] {
    if (!alive.expired() && handlers_.failed) handlers_.failed(position, {StartCause::kThisMachine, error, false});
  });
}

}  // namespace

std::unique_ptr<Starter> make_starter(net::EventLoop& loop, std::string program, Environment environment,
                                      Starter::Handlers handlers) {
  return std::make_unique<LocalStarter>(loop, std::move(program), std::move(environment), std::move(handlers));
}

}  // namespace muster::cluster::local
