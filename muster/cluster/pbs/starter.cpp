#include "muster/cluster/pbs/starter.h"

#include <fmt/format.h>

#include <map>

#include "muster/base/strings.h"
#include "muster/cluster/link.h"
#include "muster/cluster/local/starter.h"

namespace muster::cluster::pbs {
namespace {

constexpr std::string_view kTmrsh = "pbs_tmrsh";

// Agents that are tasks of the job: a pbs_tmrsh each.
class TmrshStarter final : public Starter {
 public:
  TmrshStarter(net::EventLoop& loop, const Options& options, Environment environment, Handlers handlers)
      : loop_(loop), options_(options), environment_(std::move(environment)), handlers_(std::move(handlers)) {}
  ~TmrshStarter() override {
    for (auto& [position, task] : tasks_) loop_.cancel(task.timer);
  }

  void start(int position, const Host& host, std::string description) override;
  void asked(int position) override;
  void joined(int position) override;
  void abandon(int position) override;

 private:
  struct Task {
    std::shared_ptr<Link> link;
    std::string last_line;  // of pbs_tmrsh's own
    net::EventLoop::TimerId timer = 0;
    bool joined = false;
  };

  void ended(int position, const process::ExitStatus& status);
  void timed_out(int position);
  void fail(int position, const StartFailure& failure);
  void failed_later(int position, Error error);

  net::EventLoop& loop_;
  const Options options_;
  Environment environment_;
  Handlers handlers_;
  std::map<int, Task> tasks_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // what is deferred may come after us
};

void TmrshStarter::start(int position, const Host& host, std::string /*description*/) {
  MUSTER_CHECK(!tasks_.contains(position));
  const std::string tmrsh = options_.tools.path("pbs_tmrsh");
  std::vector<std::string> argv = {tmrsh, host.name};
  for (std::string& word : fetch_command(options_.program, options_.fetch, host.name)) argv.push_back(std::move(word));
  auto link =
      Link::open(loop_, {.program = tmrsh, .argv = std::move(argv), .environment = environment_}, Link::Kill::kGroup,
                 {.output = {},  // its task's goes to the job's files
                  .said = [this, position](std::string_view line) { tasks_[position].last_line = line; },
                  .ended = [this, position](const process::ExitStatus& status) { ended(position, status); }});
  if (!link) return failed_later(position, std::move(link).error());
  Task& task = tasks_[position];
  task.link = *std::move(link);
  task.link->close_input();  // pbs_tmrsh would pass nothing on
  task.timer = loop_.call_after(options_.answer_timeout, [this, position] { timed_out(position); });
  if (handlers_.progress) handlers_.progress(position, {Progress::Stage::kRequested, {}, kTmrsh});
}

void TmrshStarter::asked(int position) {
  auto found = tasks_.find(position);
  if (found == tasks_.end()) return;
  loop_.cancel(found->second.timer);
  if (handlers_.progress) handlers_.progress(position, {Progress::Stage::kStarting});
}

void TmrshStarter::joined(int position) {
  auto found = tasks_.find(position);
  if (found == tasks_.end()) return;
  loop_.cancel(found->second.timer);
  found->second.joined = true;
}

void TmrshStarter::abandon(int position) {
  auto found = tasks_.extract(position);
  if (found) loop_.cancel(found.mapped().timer);
}

void TmrshStarter::ended(int position, const process::ExitStatus& status) {
  const Task& task = tasks_[position];
  fail(position, task.joined ? StartFailure{StartCause::kAgentEnded, agent_ended(status, ""), true}
                             : explain_tmrsh(status, task.last_line, options_.program));
}

void TmrshStarter::timed_out(int position) {
  const auto limit = std::chrono::duration_cast<std::chrono::seconds>(options_.answer_timeout).count();
  const std::string& words = tasks_[position].last_line;
  fail(position,
       {StartCause::kTimedOut,
        {ErrorKind::kTimeout,
         fmt::format("pbs_tmrsh has brought no agent within {} s{}", limit, words.empty() ? "" : " (" + words + ")"),
         "check with pbsnodes that the node is up, and that it reaches this one"},
        true});
}

void TmrshStarter::fail(int position, const StartFailure& failure) {
  auto task = tasks_.extract(position);
  loop_.cancel(task.mapped().timer);
  if (handlers_.failed) handlers_.failed(position, failure);  // may be the end of us
}

// Never from within start(): who calls it is not ready for the answer.
void TmrshStarter::failed_later(int position, Error error) {
  error.kind = ErrorKind::kSystem;  // of this machine, not of what the job is to run
  loop_.defer([this, alive = std::weak_ptr(alive_), position, error = std::move(error)] {
    if (!alive.expired() && handlers_.failed) handlers_.failed(position, {StartCause::kThisMachine, error, false});
  });
}

// The agent here is a child of ours, the others come by the one way there is.
class PbsStarter final : public Starter {
 public:
  PbsStarter(int here, std::unique_ptr<Starter> near, std::unique_ptr<Starter> far)
      : here_(here), near_(std::move(near)), far_(std::move(far)) {}

  void start(int position, const Host& host, std::string description) override {
    by(position).start(position, host, std::move(description));
  }
  void asked(int position) override { by(position).asked(position); }
  void joined(int position) override { by(position).joined(position); }
  void abandon(int position) override { by(position).abandon(position); }

 private:
  Starter& by(int position) { return position == here_ ? *near_ : *far_; }

  const int here_;
  std::unique_ptr<Starter> near_, far_;
};

// Over ssh an array's job, "7[3].p0", must not be a pattern to the shell there.
std::unique_ptr<Starter> make_ssh_starter(net::EventLoop& loop, const Options& options, const Environment& environment,
                                          Starter::Handlers handlers) {
  ssh::Options ssh = ssh::options_from(options);
  if (const std::string attach = options.tools.path("pbs_attach"); !attach.empty()) {
    ssh.wrapper = {shell_quote(attach), "-j", shell_quote(options.job_id)};
    ssh.wrapper_error = explain_attach;
  }
  return ssh::make_starter(loop, std::move(ssh), environment, std::move(handlers));
}

}  // namespace

void move_to_node(Environment& environment, int node_rank) {
  environment.erase("PBS_TASKNUM");
  environment.erase("PBS_NODEFILE");
  environment.set("PBS_NODENUM", std::to_string(node_rank));
}

std::unique_ptr<Starter> make_starter(net::EventLoop& loop, const Options& options, Environment environment,
                                      Starter::Handlers handlers) {
  auto near = local::make_starter(loop, options.program, environment, handlers);
  std::unique_ptr<Starter> far;
  if (options.tools.path("pbs_tmrsh").empty()) {
    far = make_ssh_starter(loop, options, environment, std::move(handlers));
  } else {
    far = std::make_unique<TmrshStarter>(loop, options, std::move(environment), std::move(handlers));
  }
  return std::make_unique<PbsStarter>(options.here, std::move(near), std::move(far));
}

}  // namespace muster::cluster::pbs
