#include "muster/launcher/symmetric.h"

#include <optional>
#include <thread>

#include "muster/agent/supervisor.h"
#include "muster/agent/traces.h"
#include "muster/agent/warden.h"
#include "muster/base/strings.h"
#include "muster/job/stop_policy.h"
#include "muster/launcher/head.h"
#include "muster/launcher/status_server.h"
#include "muster/net/interfaces.h"
#include "muster/net/resolve.h"
#include "muster/net/socket.h"
#include "muster/rendezvous/coordinator.h"
#include "muster/rendezvous/fetch.h"
#include "muster/rendezvous/munge.h"
#include "muster/report/publication.h"

namespace muster::launcher {
namespace {

constexpr auto kProbeTime = std::chrono::seconds(2);
constexpr auto kElsewhereTime = std::chrono::seconds(1);  // a job that hosts under another address begins so much later
constexpr auto kShowPeriod = std::chrono::milliseconds(250);

// The coordinator in the agent's process, on the agent's loop.
class HostedCoordinator final : public agent::Companion {
 public:
  HostedCoordinator(net::EventLoop& loop, output::Console& console, const Symmetric& spec, Fd listener)
      : loop_(loop), head_(console, spec.job, spec.membership) {
    report::remove_old_report(spec.job);
    rendezvous::CoordinatorOptions options;
    options.membership = spec.membership;
    options.token = spec.job.membership->token;
    options.sealed_token = spec.sealed_token;
    options.stop_grace = job::grace_after_failure(spec.job);
    if (spec.job.membership->store_on_coordinator_port) options.master_addr = spec.host;
    coordinator_ = std::make_unique<rendezvous::Coordinator>(loop, console.log(), std::move(options), head_);
    coordinator_->listen(std::move(listener));
    status_ = StatusServer::open(loop, console.log(), spec.job, coordinator_->engine(), head_, "symmetric");
    show();
  }
  ~HostedCoordinator() override { loop_.cancel(timer_); }
  const std::optional<Error>& failure() const { return coordinator_->failure(); }

  void serve_store(const std::function<void(Fd, const net::Address&, std::string_view)>& serve) override {
    coordinator_->serve_other(serve);
  }

  // This node's own member hangs up only when the process ends, so it is not waited for.
  void finish(Deadline deadline) override {
    head_.write_report();
    coordinator_->on_deserted([this] { loop_.stop(); });
    while (coordinator_->connected() > 1 && !deadline.passed())
      loop_.run_until(Deadline::at(std::min(deadline.time(), Clock::now() + kShowPeriod)));
  }

 private:
  void show() {
    head_.show_waiting(coordinator_->state(), Clock::now());
    timer_ = loop_.call_after(kShowPeriod, [this] { show(); });
  }

  net::EventLoop& loop_;
  Head head_;
  std::unique_ptr<rendezvous::Coordinator> coordinator_;
  std::unique_ptr<StatusServer> status_;
  net::EventLoop::TimerId timer_ = 0;
};

// --- The token ------------------------------------------------------------------------------------------------------

// Until it is said whom we wait for, and between two look-ups of the host's name, which may change.
constexpr auto kTurn = std::chrono::seconds(5);
constexpr auto kLookUpTime = std::chrono::seconds(15);  // the resolver asks a second server after 5 s
constexpr auto kLookUpPause = std::chrono::seconds(1);

Result<job::Token> fetch_sealed(const rendezvous::Munge& munge, const std::vector<net::Address>& addresses,
                                const std::string& sealed_as, Deadline deadline, TimePoint began) {
  return rendezvous::fetch_token(
      addresses, [&](const std::string& credential) { return munge.unseal(credential, sealed_as); }, deadline, began);
}

Error nobody_to_ask(const Symmetric& spec, const Error& why, Duration waited) {
  return {ErrorKind::kTimeout,
          fmt::format("{} has not given us the job's token in {}: {}", spec.job.membership->coordinators.front(),
                      seconds_text(waited), why.message),
          "make sure that this node can resolve that name, or give --master-addr ADDRESS"};
}

// From whoever hosts, who may not be there yet, nor have a name that is known here. A signal ends the process, which
// has nothing to clean up yet.
Result<job::Token> fetch_from_host(const Symmetric& spec) {
  const job::Membership& membership = *spec.job.membership;
  const TimePoint began = Clock::now(), end = began + membership.join_timeout;
  MUSTER_TRY(rendezvous::Munge munge, rendezvous::Munge::open());
  Log log = Log::to_stderr(spec.job.log_threshold);
  for (std::string said;;) {
    auto addresses =
        net::resolve_endpoints(membership.coordinators, Deadline::at(std::min(end, Clock::now() + kLookUpTime)));
    const Deadline turn = Deadline::at(std::min(end, Clock::now() + kTurn));
    if (addresses) {
      auto token = fetch_sealed(munge, *addresses, spec.sealed_as, turn, began);
      if (token || turn.time() == end || token.error().kind == ErrorKind::kPeer) return token;
    } else if (Clock::now() + kLookUpPause >= end) {
      return nobody_to_ask(spec, addresses.error(), Clock::now() - began);
    }
    std::string what = addresses ? spec.host : fmt::format("{} ({})", spec.host, addresses.error().message);
    if (what != said) log.info("waiting for {}, which has the job's token", what);
    said = std::move(what);
    if (!addresses) std::this_thread::sleep_for(kLookUpPause);
  }
}

// The token of a job that hands it out by munge, on either side.
Result<void> agree_on_token(Symmetric& spec, bool hosts) {
  if (spec.sealed_as.empty()) return {};
  job::Token& token = spec.job.membership->token;
  const std::string job = token.job();
  if (!hosts) {
    MUSTER_TRY(token, fetch_from_host(spec));
    token.set_job(job);
    return {};
  }
  token = job::Token::random();
  token.set_job(job);
  MUSTER_TRY(rendezvous::Munge munge, rendezvous::Munge::open());
  MUSTER_TRY(spec.sealed_token, munge.seal(token, spec.sealed_as));
  return {};
}

// --- The endpoint ---------------------------------------------------------------------------------------------------

// Whether the coordinator of this very job listens at one of these addresses. kPeer: that of another job does.
Result<void> find_our_job(const std::vector<net::Address>& addresses, const Symmetric& spec, Duration time) {
  if (!spec.sealed_as.empty()) {
    MUSTER_TRY(rendezvous::Munge munge, rendezvous::Munge::open());
    MUSTER_TRY_VOID(fetch_sealed(munge, addresses, spec.sealed_as, Deadline::in(time), Clock::now()));
    return {};
  }
  net::EventLoop loop;
  rendezvous::Channel::Options options;
  options.token = spec.job.membership->token;
  Result<void> found = Error{ErrorKind::kTimeout, "no answer", {}};
  auto connector = rendezvous::Connector::start(loop, addresses, options, time, Deadline::in(time),
                                                [&](Result<std::unique_ptr<rendezvous::Channel>> channel) {
                                                  found = channel ? Result<void>() : Result<void>(channel.error());
                                                  loop.stop();
                                                });
  loop.run_until(Deadline::in(2 * time));
  return found;
}

bool is_hosted_elsewhere(const Symmetric& spec) {
  auto addresses = net::resolve_endpoints(spec.job.membership->coordinators, Deadline::in(kElsewhereTime));
  return addresses && find_our_job(*addresses, spec, kElsewhereTime).ok();
}

// The port to host on; nothing when another process on this machine hosts, or will.
Result<std::optional<net::Listener>> open_endpoint(const Symmetric& spec) {
  if (spec.hosts == Symmetric::Hosts::kNo) return std::optional<net::Listener>();
  if (!spec.doubt.empty() && is_hosted_elsewhere(spec)) return std::optional<net::Listener>();
  std::optional<Error> first;
  bool others = false;  // the port is another muster's, of another job
  for (uint16_t port : spec.candidates) {
    auto listener = net::listen_tcp({.port = port});
    if (listener && first)
      Log::to_stderr(spec.job.log_threshold).info("{}; the nodes meet at port {}", first->message, port);
    if (listener) return std::optional<net::Listener>(*std::move(listener));
    if (!first) first = listener.error();
    const bool guess = spec.hosts == Symmetric::Hosts::kGuess, fixed = spec.candidates.size() == 1;
    if (!guess && !fixed) continue;
    auto ours = find_our_job({*net::parse_address("127.0.0.1", port)}, spec, kProbeTime);
    if (guess && ours) return std::optional<net::Listener>();
    others = fixed && !ours && ours.error().kind == ErrorKind::kPeer;
    if (others) first->message += ": " + ours.error().message;
  }
  first->hint = spec.hosts == Symmetric::Hosts::kGuess && !others
                    ? "choose another one; if that is the other node of this job, give both the same --rdzv-id"
                    : "choose another one for all nodes, with --master-port or --rdzv-endpoint";
  return *first;
}

}  // namespace

Result<int> run_symmetric(Symmetric spec) {
  MUSTER_TRY(std::optional<net::Listener> listener, open_endpoint(spec));
  job::Membership& membership = *spec.job.membership;
  MUSTER_TRY_VOID(agree_on_token(spec, listener.has_value()));
  if (listener) {
    membership.hosts_coordinator = true;
    membership.coordinators = {fmt::format("127.0.0.1:{}", listener->port)};
    spec.port = listener->port;
  }
  if (membership.store_on_coordinator_port) spec.job.master_port = spec.port;

  agent::ScratchNote scratch;
  agent::WardenLink link;
  agent::MakeCompanion make_companion;
  if (listener)
    make_companion = [&](net::EventLoop& loop, output::Console& console) -> Result<std::unique_ptr<agent::Companion>> {
      auto hosted = std::make_unique<HostedCoordinator>(loop, console, spec, std::move(listener->fd));
      if (hosted->failure()) return *hosted->failure();
      return std::unique_ptr<agent::Companion>(std::move(hosted));
    };
  return agent::run_under_warden(
      [&](int warden_pid, int warden_pidfd) {
        return agent::run_job(spec.job, {.warden_pid = warden_pid,
                                         .warden_pidfd = warden_pidfd,
                                         .scratch = scratch,
                                         .link = &link,
                                         .make_companion = make_companion});
      },
      {.after_kill = [&] { agent::remove_traces(spec.job, scratch); },
       .link = &link,
       .token = membership.token,
       .at_end = spec.at_end,
       .keep_children = spec.job.keep_children,
       .after_fork = [&] { listener.reset(); }});  // its port must not outlive the agent
}

}  // namespace muster::launcher
