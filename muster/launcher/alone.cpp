#include "muster/launcher/alone.h"

#include "muster/agent/supervisor.h"
#include "muster/agent/traces.h"
#include "muster/agent/warden.h"
#include "muster/job/stop_policy.h"
#include "muster/launcher/head.h"
#include "muster/launcher/status_server.h"
#include "muster/rendezvous/one_node_link.h"
#include "muster/report/publication.h"

namespace muster::launcher {
namespace {

// A job that is shorter needs no `muster status`, and starts sooner without it.
constexpr auto kStatusDelay = std::chrono::milliseconds(100);

rendezvous::MembershipOptions membership_of(const job::JobSpec& job) {
  rendezvous::MembershipOptions options;
  options.lease = Duration(0);
  options.max_restarts = job.max_restarts;
  options.crash_loop = job.crash_loop;
  return options;
}

// The engine in the agent's process, on the agent's loop.
class LocalEngine final : public agent::Companion {
 public:
  LocalEngine(net::EventLoop& loop, output::Console& console, const job::JobSpec& job)
      : loop_(loop),
        membership_(membership_of(job)),
        head_(console, job, membership_),
        link_(loop,
              {.membership = membership_, .stop_grace = job::grace_after_failure(job), .job = {}, .master_addr = {}},
              head_) {
    timer_ = loop_.call_after(kStatusDelay, [this, &console, &job] {
      status_ = StatusServer::open(loop_, console.log(), job, link_.engine(), head_, "local");
    });
  }
  ~LocalEngine() override { loop_.cancel(timer_); }

  rendezvous::OneNodeLink* engine() override { return &link_; }
  void finish(Deadline /*deadline*/) override { head_.conclude_alone(); }

 private:
  net::EventLoop& loop_;
  rendezvous::MembershipOptions membership_;
  Head head_;
  rendezvous::OneNodeLink link_;
  std::unique_ptr<StatusServer> status_;
  net::EventLoop::TimerId timer_ = 0;
};

}  // namespace

int run_alone(const job::JobSpec& job, const std::function<void()>& at_end) {
  report::remove_old_report(job);
  agent::ScratchNote scratch;
  agent::WardenLink link;
  auto make_engine = [&](net::EventLoop& loop, output::Console& console) -> Result<std::unique_ptr<agent::Companion>> {
    return std::unique_ptr<agent::Companion>(std::make_unique<LocalEngine>(loop, console, job));
  };
  return agent::run_under_warden(
      [&](int warden_pid, int warden_pidfd) {
        return agent::run_job(job, {.warden_pid = warden_pid,
                                    .warden_pidfd = warden_pidfd,
                                    .scratch = scratch,
                                    .link = &link,
                                    .make_companion = make_engine});
      },
      {.after_kill = [&] { agent::remove_traces(job, scratch); },
       .link = &link,
       .at_end = at_end,
       .keep_children = job.keep_children});
}

}  // namespace muster::launcher
