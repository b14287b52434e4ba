// One node of several: the coordinator decides, this node does it and tells what came of it.
#include <unistd.h>

#include <csignal>

#include "muster/agent/node_director.h"
#include "muster/agent/reach.h"
#include "muster/agent/supervisor.h"
#include "muster/agent/warden_link.h"
#include "muster/base/fd.h"
#include "muster/net/interfaces.h"
#include "muster/output/uplink.h"
#include "muster/rendezvous/member.h"

namespace muster::agent {
namespace {

using namespace rendezvous;  // the messages

constexpr int kSignalBase = 128;
constexpr auto kSilence = std::chrono::seconds(1);
constexpr auto kAskAgain = std::chrono::milliseconds(50);  // whether the lease holds again
constexpr auto kGoodbyeTime = std::chrono::milliseconds(200);

class MemberNode final : public NodeDirector {
 public:
  MemberNode(NodeControl& node, const job::JobSpec& job, WardenLink& link)
      : NodeDirector(node, job), membership_(*job.membership), link_(link) {}

  void begin() override;
  void stop_asked(int signal) override;
  void kill_asked(int signal) override {
    if (welcomed_ && !end_ && !error_) member_->tell(StopRequest{signal});
  }
  int conclude(Conclusion& conclusion, const std::optional<Error>& error) override;
  void all_is_gone() override;
  Conclusion::Count count() const override { return {.round = round_.number, .restarts = round_.restarts}; }

 private:
  void told(const Message& message);
  void on(const Welcome& welcome);
  void on(const OpenStore& open) { open_store(open); }
  void on(const StartRound& start);
  void on(const StopRound& stop);
  void on(const PassSignal& pass);
  void on(const EndJob& end);
  template <typename Other>
  void on(const Other& /*not for agents*/) {}

  void say(const Message& message) override {
    if (member_) member_->tell(message);
  }
  Join join_with_addresses() const;
  void start_within_lease(const std::string& master_addr);
  void end_with(Error error);
  void show_waiting(const std::string& what);
  Environment interface_variables(const std::string& own_address) const;

  const job::Membership& membership_;
  WardenLink& link_;
  std::unique_ptr<Member> member_;
  std::unique_ptr<Reach> reach_;
  std::string said_waiting_;
  Welcome welcome_;
  bool welcomed_ = false;
  bool began_round_ = false;  // ever
  std::string own_address_;
  bool leaving_ = false;
};

Join MemberNode::join_with_addresses() const {
  Join join = this->join();
  join.rank = membership_.rank;
  join.position = membership_.position;
  join.min_nodes = membership_.min_nodes;
  join.max_nodes = membership_.max_nodes;
  std::vector<net::InterfaceAddress> all = net::interface_addresses();
  if (!membership_.interface.empty())
    if (auto chosen = net::select_interfaces(all, membership_.interface)) {
      all = *std::move(chosen);
      join.chose_addresses = true;
    }
  for (const net::InterfaceAddress& each : all)
    if (!each.loopback) join.addresses.push_back(each.address.host());
  return join;
}

void MemberNode::begin() {
  Member::Handlers handlers;
  handlers.told = [this](const Message& message) { told(message); };
  handlers.refused = [this](const Error& why) { end_with(why); };
  handlers.lost = [this](const Error& why) {
    end_with({ErrorKind::kPeer,
              fmt::format("lost the coordinator: {}; the workers of this node were ended", why.message),
              {}});
  };
  handlers.waiting = [this](const std::string& what) { show_waiting(what); };
  member_ = std::make_unique<Member>(node_.loop(), membership_.token, membership_.coordinators, join_with_addresses(),
                                     Deadline::in(membership_.join_timeout), std::move(handlers));
}

// A launcher that this node cannot reach hears of it on the way by which it has started the agent.
void MemberNode::show_waiting(const std::string& what) {
  output::Console& console = node_.console();
  const bool changed = std::exchange(said_waiting_, what) != what;
  if (node_.uplink() != nullptr) {
    const std::string line = fmt::format("{}{}\n", kCannotReach, what);
    if (changed) (void)write_all(STDERR_FILENO, line.data(), line.size());
  } else if (console.is_terminal(job::Stream::kStderr)) {
    const auto waited = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began_);
    console.set_live_line(fmt::format("muster: waiting for the coordinator ({})", what),
                          fmt::format(" · {} s", waited.count()));
  } else if (changed) {
    console.log().info("waiting for the coordinator ({})", what);
  }
}

void MemberNode::told(const Message& message) {
  if (leaving_) return;
  std::visit([this](const auto& each) { on(each); }, message);
}

void MemberNode::on(const Welcome& welcome) {
  welcome_ = welcome;
  welcomed_ = true;
  node_.console().set_live_line("");
  link_.set_terms({.node = welcome.node,
                   .lease = welcome.lease,
                   .coordinator = member_->coordinator(),
                   .since = member_->join_sent()});
  if (auto named = node_.join_job(welcome.job); !named) return end_with(named.error());
  if (output::Uplink* uplink = node_.uplink())
    uplink->connect(member_->coordinator(), membership_.token, welcome.node, welcome.lease);
  if (!node_.stop_signals().empty()) member_->tell(StopRequest{node_.stop_signals().front()});
  if (membership_.output_to_launcher || membership_.hosts_coordinator) return;
  // Only the node that hosts knows for whom.
  node_.loop().call_after(kSilence, [this] {
    if (!began_round_ && !end_ && !error_)
      node_.console().log().info("joined at {}; waiting for the other nodes", member_->coordinator().text());
  });
}

void MemberNode::on(const StartRound& start) {
  take_round(start);
  round_.job = welcome_.job;
  round_.lease = welcome_.lease;
  if (round_.group_rank != 0) node_.close_store();
  own_address_ = start.own_address;
  began_round_ = true;
  // Where everybody meets by agreement, or nobody listens yet, there is nothing to find out.
  const bool given = membership_.store_on_coordinator_port || job_.store_host == job::StoreHost::kWorker;
  if (round_.group_rank == 0 || given)
    return start_within_lease(start.master_addresses.empty() ? own_address_ : start.master_addresses.front());
  reach_ = std::make_unique<Reach>(
      node_.loop(), start.master_addresses, round_.master_port, [this](Result<std::string> address) {
        if (address) return start_within_lease(*address);
        cannot_start(fmt::format("{} cannot reach the store of rank 0: {}", job_.host, address.error().message));
      });
}

void MemberNode::start_within_lease(const std::string& master_addr) {
  if (!in_round_ || end_ || error_) return;
  // This node stood still, or was told late: the round may be another one by now. The warden asks.
  if (Clock::now() >= link_.lease_until()) {
    node_.loop().call_after(kAskAgain, [this, master_addr, round = round_.number] {
      if (round_.number == round && !started_) start_within_lease(master_addr);
    });
    return;
  }
  round_.variables = interface_variables(own_address_);
  start(master_addr);
}

// Gloo binds to what this node's own name resolves to. Where that is loopback, or nothing, it is told the interface
// that the other nodes reach.
Environment MemberNode::interface_variables(const std::string& own_address) const {
  Environment variables;
  const std::vector<net::InterfaceAddress> all = net::interface_addresses();
  std::string reached = net::interface_of(all, own_address);
  auto unset = [&](const char* name) { return !job_.environment.has(name); };
  if (!membership_.interface.empty()) {
    auto chosen = net::select_interfaces(all, membership_.interface);
    if (chosen) reached = chosen->front().interface;
    if (unset("NCCL_SOCKET_IFNAME") && !reached.empty()) variables.add("NCCL_SOCKET_IFNAME", reached);
  }
  if (reached.empty() || !unset("GLOO_SOCKET_IFNAME")) return variables;
  if (!membership_.interface.empty() || !node_.own_name_is_reachable()) variables.add("GLOO_SOCKET_IFNAME", reached);
  return variables;
}

void MemberNode::on(const StopRound& stop) {
  if (!in_round_ || stop.round != round_.number) return;
  if (!started_) {  // no error of its own
    reach_.reset();
    in_round_ = false;
    return member_->tell(RoundEnded{.round = round_.number, .succeeded = false, .outcomes = {}, .start_error = {}});
  }
  node_.console().log().debug("round {} is stopped: {}", stop.round, stop.reason);
  node_.stop_round(stop.signal, stop.grace);
}

void MemberNode::on(const PassSignal& pass) {
  if (node_.crew() != nullptr) node_.crew()->pass_on(pass.signal);
}

void MemberNode::on(const EndJob& end) {
  end_ = end;
  output::Uplink* uplink = node_.uplink();
  if (uplink != nullptr) uplink->job_is_over();
  if (!welcomed_) {  // it came too late to be one of the job
    node_.console().set_live_line("");
    if (uplink != nullptr) uplink->give_up();
  }
  reach_.reset();
  // It should have ended; when it has, round_ended() does the rest.
  if (in_round_ && started_) return node_.stop_round(SIGKILL, Duration(0));
  node_.finish();
}

void MemberNode::end_with(Error error) {
  if (end_ || error_) return;
  error_ = std::move(error);
  node_.console().set_live_line("");
  if (output::Uplink* uplink = node_.uplink()) uplink->give_up();
  if (in_round_ && node_.crew() != nullptr && node_.crew()->running() > 0)
    return node_.stop_round(SIGKILL, Duration(0));
  node_.finish();
}

void MemberNode::stop_asked(int signal) {
  if (end_ || error_) return;
  if (welcomed_) return member_->tell(StopRequest{signal});
  end_ = EndJob{kSignalBase + signal, "", "a signal asked this node to end"};
  node_.finish();
}

int MemberNode::conclude(Conclusion& conclusion, const std::optional<Error>& error) {
  if (error) return conclusion.not_started(*error);
  if (error_) return conclusion.failed(node_.crew(), *error_);
  // The launcher tells how it ended, once for all nodes.
  if (membership_.output_to_launcher) end_->text.clear();
  if (membership_.must_take_part && !began_round_ && end_->exit_code == 0)
    return conclusion.failed(node_.crew(),
                             {ErrorKind::kPeer,
                              fmt::format("this node ran no worker: the job at {} already had its {} nodes",
                                          member_->coordinator().text(), membership_.max_nodes),
                              "give each job its own --rdzv-id or port, or --nnodes MIN:MAX if this node is a spare"});
  return conclusion.ended(node_.crew(), *end_);
}

void MemberNode::all_is_gone() {
  constexpr auto kLook = std::chrono::milliseconds(10);
  if (!welcomed_) return;
  leaving_ = true;
  member_->tell(Goodbye{.node = welcome_.node});
  for (Deadline deadline = Deadline::in(kGoodbyeTime); member_->unsent() > 0 && !deadline.passed();)
    node_.loop().run_until(Deadline::in(kLook));
}

}  // namespace

std::unique_ptr<Director> make_member_node(NodeControl& node, const job::JobSpec& job, WardenLink& link) {
  return std::make_unique<MemberNode>(node, job, link);
}

}  // namespace muster::agent
