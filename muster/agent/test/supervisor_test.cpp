// Each test runs an agent in a process of its own, whose parent plays the warden; the engine is the real one.
#include "muster/agent/supervisor.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "muster/agent/test/shell_workers.h"
#include "muster/net/socket.h"
#include "muster/rendezvous/one_node_link.h"
#include "muster/report/outcome_codec.h"

namespace muster::agent {
namespace {

using testing::kIgnore;
using testing::kWait;

struct Client final : rendezvous::EngineClient {
  void joined(const rendezvous::Node& /*node*/) override {}
  void gone(const rendezvous::Node& /*node*/, const rendezvous::Loss& /*loss*/) override {}
  void changed(const rendezvous::State& /*state*/, const rendezvous::Decision& /*decision*/) override {}
  void round_started(const rendezvous::State& /*state*/) override {}
  void worker_failed(const rendezvous::Node& /*node*/, const rendezvous::WorkerFailed& /*failed*/) override {}
  rendezvous::Failure judge(int /*round*/, const std::vector<rendezvous::NodeOutcomes>& nodes) override {
    rendezvous::Failure failure;
    auto outcomes = report::decode_outcomes(nodes.at(0).bytes, Duration(0));
    failure.can_restart = outcomes && !outcomes->empty();
    if (failure.can_restart) failure.exit_code = report::job_exit_code(outcomes->at(report::judge(*outcomes).root));
    return failure;
  }
  std::string ended(const rendezvous::Decision& /*decision*/,
                    const std::vector<rendezvous::NodeOutcomes>& /*outcomes*/) override {
    return {};
  }
};

class LocalEngine final : public Companion {
 public:
  LocalEngine(net::EventLoop& loop, const job::JobSpec& job) : link_(loop, options_of(job), client_) {}
  rendezvous::OneNodeLink* engine() override { return &link_; }
  void finish(Deadline /*deadline*/) override {}

 private:
  static rendezvous::EngineOptions options_of(const job::JobSpec& job) {
    rendezvous::EngineOptions options;
    options.membership.lease = Duration(0);
    options.membership.max_restarts = job.max_restarts;
    return options;
  }
  Client client_;
  rendezvous::OneNodeLink link_;
};

class SupervisorTest : public testing::ShellWorkers {
 protected:
  void start(const std::string& script) {
    prepare(script);
    agent_ = ::fork();
    ASSERT_GE(agent_, 0);
    if (agent_ == 0) ::_exit(run_agent());
  }
  int run_agent() {
    ::setsid();
    Fd nothing(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    ::dup2(nothing.get(), STDERR_FILENO);
    if (!process::become_subreaper()) return -1;
    Fd warden(static_cast<int>(::syscall(SYS_pidfd_open, ::getppid(), 0)));
    ScratchNote scratch;
    WardenLink link;
    auto make = [this](net::EventLoop& loop, output::Console&) -> Result<std::unique_ptr<Companion>> {
      return std::unique_ptr<Companion>(std::make_unique<LocalEngine>(loop, job_));
    };
    return run_job(job_, {.warden_pid = ::getppid(),
                          .warden_pidfd = warden.get(),
                          .scratch = scratch,
                          .link = &link,
                          .make_companion = make});
  }
  void signal(int number) const { ::kill(agent_, number); }
  bool is_pending(int number) const {
    std::ifstream status("/proc/" + std::to_string(agent_) + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("ShdPnd:")) return ((std::stoull(line.substr(7), nullptr, 16) >> (number - 1)) & 1) != 0;
    return false;
  }
  int exit_code() {
    int status = -1;
    EXPECT_TRUE(until([&] { return ::waitpid(agent_, &status, WNOHANG) == agent_; }));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  pid_t agent_ = -1;
};

TEST_F(SupervisorTest, AJobWhoseWorkersSucceedSucceeds) {
  start("touch $RANK.up");
  EXPECT_EQ(exit_code(), 0);
  EXPECT_TRUE(all_up());
}

TEST_F(SupervisorTest, AFailureEndsTheOthersAndIsTheExitCode) {
  start(std::string("if [ $RANK = 1 ]; then until [ -e 0.up ]; do :; done; exit 3; fi; ") + kWait);
  EXPECT_EQ(exit_code(), 3);
}

TEST_F(SupervisorTest, ARestartIsAnotherRoundWithAnotherStore) {
  job_.max_restarts = 1;
  start("echo $MASTER_PORT >port.$RANK.$MUSTER_ROUND; exit $((1 - TORCHELASTIC_RESTART_COUNT))");
  EXPECT_EQ(exit_code(), 0);
  EXPECT_TRUE(exists("port.0.1") && exists("port.1.1"));
}

TEST_F(SupervisorTest, ASignalStopsTheWorkersAndIsTheExitCode) {
  start(kWait);
  ASSERT_TRUE(until([&] { return all_up(); }));
  signal(SIGTERM);
  EXPECT_EQ(exit_code(), 128 + SIGTERM);
}

TEST_F(SupervisorTest, ASecondInterruptKillsWorkersThatIgnoreTheFirst) {
  start(kIgnore);
  ASSERT_TRUE(until([&] { return all_up(); }));
  signal(SIGINT);
  // Two that are pending at once are one.
  ASSERT_TRUE(until([&] { return !is_pending(SIGINT); }));
  signal(SIGINT);
  EXPECT_EQ(exit_code(), 128 + SIGINT);
}

TEST_F(SupervisorTest, ASignalThatMeansNothingToTheJobIsPassedOn) {
  start("trap 'touch $RANK.usr1; exit 0' USR1; touch $RANK.up; while :; do sleep 0.05; done");
  ASSERT_TRUE(until([&] { return all_up(); }));
  signal(SIGUSR1);
  EXPECT_EQ(exit_code(), 0);
  EXPECT_TRUE(exists("0.usr1") && exists("1.usr1"));
}

TEST_F(SupervisorTest, AProgramThatIsNotThereHasItsOwnExitCode) {
  job_.max_restarts = 3;
  prepare("");
  job_.command.program = "/nowhere/sh";
  agent_ = ::fork();
  if (agent_ == 0) ::_exit(run_agent());
  EXPECT_EQ(exit_code(), 127);
}

TEST_F(SupervisorTest, AStorePortThatIsTakenIsAUsageErrorBeforeAnythingStarts) {
  auto taken = net::listen_tcp({});
  ASSERT_TRUE(taken);
  job_.master_port = taken->port;
  start("touch $RANK.up");
  EXPECT_EQ(exit_code(), 2);
  EXPECT_FALSE(is_up(0));
}

}  // namespace
}  // namespace muster::agent
