#include "muster/cluster/local/starter.h"

#include <fmt/format.h>
#include <signal.h>

#include <map>

#include "muster/cluster/link.h"

namespace muster::cluster::local {
namespace {

// For agents that are still there when the job is over, to end their workers as they should.
constexpr Duration kGrace = std::chrono::seconds(2);

class LocalStarter final : public Starter {
 public:
  LocalStarter(net::EventLoop& loop, std::string program, process::Environment environment, Handlers handlers)
      : loop_(loop),
        program_(std::move(program)),
        environment_(std::move(environment)),
        handlers_(std::move(handlers)) {}
  ~LocalStarter() override;

  void start(int position, const Host& host, std::string description) override;
  void joined(int position) override {
    if (auto found = agents_.find(position); found != agents_.end()) found->second.joined = true;
  }
  void abandon(int position) override {
    if (auto agent = agents_.extract(position)) agent.mapped().link->close();
  }

 private:
  struct Agent {
    std::shared_ptr<Link> link;
    std::string last_line;  // of its stderr
    bool joined = false;
  };

  void said(int position, std::string_view line);
  void ended(int position, const process::ExitStatus& status);
  void failed_later(int position, Error error);

  net::EventLoop& loop_;
  std::string program_;
  process::Environment environment_;
  Handlers handlers_;
  std::map<int, Agent> agents_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // what is deferred may come after us
};

LocalStarter::~LocalStarter() {
  for (auto& [position, agent] : agents_) {
    agent.link->close_input();
    agent.link->signal(SIGTERM);
  }
  Deadline deadline = Deadline::in(kGrace);
  for (auto& [position, agent] : agents_) agent.link->wait(deadline);
}

void LocalStarter::start(int position, const Host& /*host*/, std::string description) {
  MUSTER_CHECK(!agents_.contains(position));
  process::SpawnSpec spec{.program = program_, .argv = {program_, "agent"}, .environment = environment_};
  auto link = Link::open(loop_, std::move(spec), Link::Kill::kAlone,
                         {.output = {},  // its greeting: we know whom we started
                          .said = [this, position](std::string_view line) { said(position, line); },
                          .ended = [this, position](const auto& status) { ended(position, status); }});
  if (!link) return failed_later(position, std::move(link).error());
  (*link)->write(description);
  agents_[position] = {*std::move(link), {}, false};
  if (handlers_.progress) handlers_.progress(position, "starting");
}

void LocalStarter::said(int position, std::string_view line) {
  agents_[position].last_line = line;
  if (handlers_.said) handlers_.said(position, line);
}

void LocalStarter::ended(int position, const process::ExitStatus& status) {
  Agent agent = std::move(agents_[position]);
  agents_.erase(position);
  const Error error = agent_ended(status, agent.joined ? "" : agent.last_line);
  // An agent that ended by itself before it joined has said why, and would again.
  bool may_try_again = agent.joined || status.signal != 0;
  if (handlers_.failed) handlers_.failed(position, error, may_try_again);
}

// Never from within start(): who calls it is not ready for the answer.
void LocalStarter::failed_later(int position, Error error) {
  loop_.defer([this, alive = std::weak_ptr(alive_), position, error = std::move(error)] {
    if (!alive.expired() && handlers_.failed) handlers_.failed(position, error, false);
  });
}

}  // namespace

std::unique_ptr<Starter> make_starter(net::EventLoop& loop, std::string program, process::Environment environment,
                                      Starter::Handlers handlers) {
  return std::make_unique<LocalStarter>(loop, std::move(program), std::move(environment), std::move(handlers));
}

}  // namespace muster::cluster::local
