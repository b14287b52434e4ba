// The one node of a job: the engine is in the same process.
#include "muster/agent/node_director.h"
#include "muster/rendezvous/one_node_link.h"

namespace muster::agent {
namespace {

using namespace rendezvous;  // the messages

class LocalNode final : public NodeDirector {
 public:
  LocalNode(NodeControl& node, const job::JobSpec& job, OneNodeLink* engine, int warden_pid)
      : NodeDirector(node, job), link_(engine), warden_pid_(warden_pid) {}

  void begin() override {
    link_->join(join(), [this](const Message& message) { told(message); });
  }
  void stop_asked(int signal) override { say(StopRequest{signal}); }
  int conclude(Conclusion& conclusion, const std::optional<Error>& error) override;
  Conclusion::Count count() const override {
    if (link_ == nullptr) return {.round = 0, .restarts = 0};
    const State& state = link_->engine().state();
    return {.round = std::max(state.round, 0), .restarts = state.restarts};
  }

 private:
  void say(const Message& message) override { link_->say(message); }
  void told(const Message& message);

  OneNodeLink* link_;  // null: nothing could be prepared
  int warden_pid_;
};

// The engine stops a round because a worker of this node has failed, or this process was signalled; the supervisor has
// acted upon both already.
void LocalNode::told(const Message& message) {
  if (const auto* open = std::get_if<OpenStore>(&message)) {
    began_ = Clock::now();
    open_store(*open);
  } else if (const auto* start = std::get_if<StartRound>(&message)) {
    take_round(*start);
    round_.job = link_->engine().options().job;
    this->start(job_.master_addr);
  } else if (const auto* end = std::get_if<EndJob>(&message)) {
    end_ = *end;
    node_.finish();
  }
}

int LocalNode::conclude(Conclusion& conclusion, const std::optional<Error>& error) {
  if (error) return conclusion.not_started(*error);
  if (start_error_) return conclusion.not_started(*start_error_);
  const State& state = link_->engine().state();
  if (state.ending == job::Ending::kSignalled) return conclusion.signalled(*state.stop_signal, warden_pid_);
  return conclusion.ended(node_.crew(), *end_);
}

}  // namespace

std::unique_ptr<Director> make_local_node(NodeControl& node, const job::JobSpec& job, OneNodeLink* engine,
                                          int warden_pid) {
  return std::make_unique<LocalNode>(node, job, engine, warden_pid);
}

}  // namespace muster::agent
