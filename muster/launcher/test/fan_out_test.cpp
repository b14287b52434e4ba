// A launcher at work in a process of its own, with an adapter whose agents do what a test wants.

#include "muster/launcher/fan_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <map>

#include "muster/base/fd.h"
#include "muster/base/pipe.h"
#include "muster/base/strings.h"
#include "muster/launcher/agents.h"
#include "muster/rendezvous/member.h"

namespace muster::launcher {
namespace {

using cluster::Progress;
using cluster::StartCause;
using cluster::StartFailure;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

constexpr unsigned kMostSeconds = 100;  // a launcher that hangs is ended

// Logs what the launcher asks of it, one line each, and does with each start what the test says.
class FakeStarter final : public cluster::Starter {
 public:
  using Script = std::function<void(FakeStarter& agents, int position, int attempt)>;

  FakeStarter(net::EventLoop& loop, Handlers handlers, int log, Script script)
      : handlers(std::move(handlers)), loop_(loop), log_(log), script_(std::move(script)) {}

  void start(int position, const cluster::Host& host, std::string description) override {
    note(fmt::format("start {}", host.name));
    descriptions_[position] = *cluster::decode_description(description);
    loop_.defer([this, position, attempt = ++starts_[position]] { script_(*this, position, attempt); });
  }
  void joined(int position) override { note(fmt::format("joined {}", descriptions_[position].host)); }
  void abandon(int position) override { note(fmt::format("abandon {}", descriptions_[position].host)); }

  // What an agent does besides answering pings.
  struct Part {
    std::function<void()> welcomed = [] {};
    std::function<void()> running = [] {};
    std::function<void(int signal)> signalled = [](int) {};
  };
  void join(int position, Part part) {
    const cluster::Description& told = descriptions_[position];
    rendezvous::Join join;
    join.host = told.host;
    join.position = told.position;
    auto hear = [this, position, part = std::move(part)](const rendezvous::Message& message) {
      if (std::holds_alternative<rendezvous::Welcome>(message)) part.welcomed();
      if (const auto* open = std::get_if<rendezvous::OpenStore>(&message))
        members_[position]->tell(rendezvous::StoreOpened{.round = open->round, .port = 1, .error = {}});
      if (const auto* start = std::get_if<rendezvous::StartRound>(&message)) {
        members_[position]->tell(rendezvous::RoundStarted{.round = start->round.number, .pids = {1}});
        part.running();
      }
      if (const auto* pass = std::get_if<rendezvous::PassSignal>(&message)) part.signalled(pass->signal);
      if (std::holds_alternative<rendezvous::StopRound>(message)) end_round(position, false);
      if (std::holds_alternative<rendezvous::EndJob>(message)) leave(position);
    };
    members_[position] = std::make_unique<rendezvous::Member>(
        loop_, *job::Token::parse(told.token), told.endpoints, join, Deadline::in(60s),
        rendezvous::Member::Handlers{.told = hear, .refused = {}, .lost = {}, .waiting = {}});
  }
  void end_round(int position, bool succeeded) {
    members_[position]->tell(
        rendezvous::RoundEnded{.round = 0, .succeeded = succeeded, .outcomes = {}, .start_error = {}});
  }
  // Not from within what it is told.
  void leave(int position) {
    loop_.defer([this, position] { members_.erase(position); });
  }
  void fail(int position, StartCause cause, ErrorKind kind, const std::string& message, bool may_try_again) {
    handlers.failed(position, {cause, {kind, message, {}}, may_try_again});
  }

  void note(std::string line) const {
    line += '\n';
    (void)write_all(log_, line.data(), line.size());
  }

  const Handlers handlers;

 private:
  net::EventLoop& loop_;
  const int log_;
  const Script script_;
  std::map<int, int> starts_;
  std::map<int, cluster::Description> descriptions_;
  std::map<int, std::unique_ptr<rendezvous::Member>> members_;
};

class FakeAdapter final : public cluster::Adapter {
 public:
  FakeAdapter(int log, FakeStarter::Script script) : log_(log), script_(std::move(script)) {}
  std::string_view name() const override { return "fake"; }
  bool is_local() const override { return true; }
  std::unique_ptr<cluster::Starter> make_starter(net::EventLoop& loop, const cluster::StartOptions& /*options*/,
                                                 const Environment& /*environment*/,
                                                 const cluster::Starter::Handlers& handlers) const override {
    return std::make_unique<FakeStarter>(loop, std::move(handlers), log_, script_);
  }

 private:
  const int log_;
  const FakeStarter::Script script_;
};

std::string drain(const Fd& fd) {
  EXPECT_TRUE(set_nonblocking(fd.get(), false));
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t size; (size = ::read(fd.get(), buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<size_t>(size));
  return text;
}

class FanOutTest : public ::testing::Test {
 protected:
  // Runs a job on n1, n2 … to its end; returns its exit code.
  int run(int hosts, FakeStarter::Script script) {
    Pipe log = *make_pipe(), errors = *make_pipe();
    const pid_t launcher = ::fork();
    if (launcher == 0) {
      ::alarm(kMostSeconds);
      ::dup2(errors.write.get(), STDERR_FILENO);
      const FakeAdapter adapter(log.write.get(), std::move(script));
      FanOut spec;
      spec.adapter = &adapter;
      spec.job.signals_to_handle = {SIGTERM, SIGINT};
      spec.membership.min_nodes = spec.membership.max_nodes = spec.membership.expected = hosts;
      for (int i = 1; i <= hosts; ++i) spec.hosts.push_back({fmt::format("n{}", i), std::nullopt});
      for (const cluster::Host& host : spec.hosts) spec.membership.expected_hosts.push_back(host.name);
      ::_exit(run_fan_out(spec));
    }
    log.write.reset();
    errors.write.reset();
    errors_ = drain(errors.read);
    const std::string text = drain(log.read);
    for (std::string_view line : split(trim(text), '\n')) asked_.emplace_back(line);
    int status = 0;
    EXPECT_EQ(::waitpid(launcher, &status, 0), launcher);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::vector<std::string> asked_;  // of the starter
  std::string errors_;              // what the launcher said
};

TEST_F(FanOutTest, AHostThatFailsIsTriedAgain) {
  const int code = run(1, [](FakeStarter& agents, int position, int attempt) {
    attempt == 1 ? agents.fail(position, StartCause::kUnreachable, ErrorKind::kPeer, "ssh: connection refused", true)
                 : agents.fail(position, StartCause::kPermission, ErrorKind::kPeer, "ssh: permission denied", false);
  });
  EXPECT_EQ(code, kMusterFailed);
  EXPECT_THAT(asked_, ElementsAre("start n1", "start n1"));
  EXPECT_THAT(errors_, HasSubstr("n1: ssh: permission denied"));
}

TEST_F(FanOutTest, WhatNoAttemptCanMendEndsTheJobAtOnce) {
  const int code = run(2, [](FakeStarter& agents, int position, int /*attempt*/) {
    if (position == 1)
      agents.fail(position, StartCause::kHostKey, ErrorKind::kPeer, "ssh: the host key has changed", false);
  });
  EXPECT_EQ(code, kMusterFailed);
  EXPECT_THAT(asked_, ElementsAre("start n1", "start n2"));
  EXPECT_THAT(errors_, HasSubstr("n2: ssh: the host key has changed"));
}

TEST_F(FanOutTest, AHopelessHostHasTheExitCodeOfWhatIsWrong) {
  auto failing = [](ErrorKind kind) {
    return [kind](FakeStarter& agents, int position, int /*attempt*/) {
      agents.fail(position, StartCause::kAgentEnded, kind, "x.py does not exist", false);
    };
  };
  EXPECT_EQ(run(2, failing(ErrorKind::kNotFound)), 127);
  EXPECT_THAT(errors_, HasSubstr("n1, n2: x.py does not exist")) << "both are told, in one sentence";
  EXPECT_EQ(run(1, failing(ErrorKind::kNotExecutable)), 126);
  EXPECT_EQ(run(1, failing(ErrorKind::kUsage)), 2);
}

TEST_F(FanOutTest, AnAgentThatIsLostSoonAfterItHasJoinedIsStartedAnew) {
  const int code = run(2, [](FakeStarter& agents, int position, int attempt) {
    if (position == 1) return;  // never comes
    if (attempt == 1) return agents.join(position, {.welcomed = [&agents, position] { agents.leave(position); }});
    agents.fail(position, StartCause::kNoSuchHost, ErrorKind::kPeer, "ssh: no such host", false);
  });
  EXPECT_EQ(code, kMusterFailed);
  EXPECT_THAT(asked_, ElementsAre("start n1", "start n2", "joined n1", "abandon n1", "start n1"));
  EXPECT_THAT(errors_, HasSubstr("n1: ssh: no such host"));
}

TEST_F(FanOutTest, WhatAnAgentSaysLastIsSaidOnce) {
  run(1, [](FakeStarter& agents, int position, int /*attempt*/) {
    agents.handlers.said(position, "a warning");
    agents.handlers.said(position, "muster: error: n1: no space left");
    agents.fail(position, StartCause::kAgentEnded, ErrorKind::kPeer, "no space left", false);
  });
  EXPECT_THAT(errors_, HasSubstr("[n1] a warning\n"));
  EXPECT_THAT(errors_, HasSubstr("n1: no space left"));
  EXPECT_THAT(errors_, Not(HasSubstr("[n1] muster: error")));
}

TEST_F(FanOutTest, ASignalEndsAJobThatStillWaits) {
  const int code = run(2, [](FakeStarter& agents, int position, int /*attempt*/) {
    if (position == 0) agents.join(position, {.welcomed = [] { ::kill(::getpid(), SIGTERM); }});
  });
  EXPECT_EQ(code, 128 + SIGTERM);
  EXPECT_THAT(asked_, ElementsAre("start n1", "start n2", "joined n1"));
  EXPECT_THAT(errors_, HasSubstr("SIGTERM: stopping the job on 1 node"));
}

TEST_F(FanOutTest, ASignalEndsAJobThatHasNoNodeYet) {
  const int code = run(1, [](FakeStarter& agents, int position, int /*attempt*/) {
    agents.handlers.progress(position, {Progress::Stage::kSending, "5.2 MB"});
    ::kill(::getpid(), SIGINT);
  });
  EXPECT_EQ(code, 128 + SIGINT);
  EXPECT_THAT(errors_, HasSubstr("SIGINT: stopping, 0 of 1 node · waiting for n1 (sending the program (5.2 MB))"));
}

TEST_F(FanOutTest, AJobWhoseWorkersSucceed) {
  const int code = run(2, [](FakeStarter& agents, int position, int /*attempt*/) {
    agents.join(position, {.running = [&agents, position] { agents.end_round(position, true); }});
  });
  EXPECT_EQ(code, 0) << errors_;
  EXPECT_THAT(asked_, ::testing::UnorderedElementsAre("start n1", "start n2", "joined n1", "joined n2"));
}

TEST_F(FanOutTest, SignalsReachEveryNode) {
  const int code = run(1, [](FakeStarter& agents, int position, int /*attempt*/) {
    auto signalled = [&agents](int signal) {
      agents.note(fmt::format("signal {}", signal));
      ::kill(::getpid(), SIGTERM);
    };
    agents.join(position, {.running = [] { ::kill(::getpid(), SIGUSR1); }, .signalled = signalled});
  });
  EXPECT_EQ(code, 128 + SIGTERM) << errors_;
  EXPECT_THAT(asked_, ElementsAre("start n1", "joined n1", fmt::format("signal {}", SIGUSR1)));
}

TEST(AgentLine, OfItsWayIntoTheJob) {
  EXPECT_EQ(progress_of("muster: setting up: prologue"), (Progress{Progress::Stage::kSettingUp, "prologue"}));
  EXPECT_EQ(progress_of("muster: cannot reach the launcher: 10.0.0.1:1: refused"),
            (Progress{Progress::Stage::kUnreachable, "10.0.0.1:1: refused"}));
  EXPECT_FALSE(progress_of("muster: error: no"));
}

}  // namespace
}  // namespace muster::launcher
