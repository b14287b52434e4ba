#include "muster/output/receiver.h"

#include <algorithm>

namespace muster::output {
namespace {

using rendezvous::Channel;
using rendezvous::Chunk;
using rendezvous::NodeId;
using rendezvous::OutputTaken;

// From the end of the handshake to the message that says of which node a connection is.
constexpr auto kIntroduction = std::chrono::seconds(5);

}  // namespace

Receiver::Receiver(net::EventLoop& loop, Take take, std::function<void()> closed)
    : loop_(loop),
      take_(std::move(take)),
      closed_(std::move(closed)),
      turn_end_(loop.add_end_hook([this] { turn_ended(); })) {
  pulse();
}

Receiver::~Receiver() {
  loop_.cancel(rest_);
  loop_.cancel(pulse_);
  loop_.remove_end_hook(turn_end_);
  for (Newcomer& newcomer : newcomers_) loop_.cancel(newcomer.patience);
}

void Receiver::expect(NodeId node, const std::string& host) { nodes_[node].host = host; }

void Receiver::accept(std::unique_ptr<Channel> channel) {
  const NewcomerId newcomer = newcomers_.insert(newcomers_.end(), {.channel = std::move(channel)});
  newcomer->patience = loop_.call_after(kIntroduction, [this, newcomer] { leave(newcomer); });
  newcomer->channel->resume_on(
      loop_, {.opened = {},
              .received = [this, newcomer](std::string_view message) { introduced(newcomer, message); },
              .closed = [this, newcomer](const Error&) { leave(newcomer); },
              .drained = {}});
}

void Receiver::introduced(NewcomerId newcomer, std::string_view message) {
  auto decoded = rendezvous::decode(message);
  const auto* hello = decoded ? std::get_if<rendezvous::OutputHello>(&*decoded) : nullptr;
  if (hello != nullptr) {
    auto found = nodes_.find(hello->node);
    if (found != nodes_.end() && found->second.awaited) adopt(hello->node, std::move(newcomer->channel));
  }
  leave(newcomer);
}

void Receiver::leave(NewcomerId newcomer) {
  loop_.cancel(newcomer->patience);
  newcomers_.erase(newcomer);
  closed_();
}

void Receiver::adopt(NodeId id, std::unique_ptr<Channel> channel) {
  Node& node = nodes_.at(id);
  node.channel = std::move(channel);
  node.channel->resume_on(loop_, {.opened = {},
                                  .received = [this, id](std::string_view message) { received(id, message); },
                                  .closed = [this, id](const Error&) { close(id); },
                                  .drained = {}});
  node.channel->pause(rest_ != 0);
  // All that were taken, room or not: the agent sends what follows them, and no chunk may come twice.
  tell_all(node);
}

void Receiver::received(NodeId id, std::string_view message) {
  auto decoded = rendezvous::decode(message);
  const auto* chunk = decoded ? std::get_if<Chunk>(&*decoded) : nullptr;
  if (chunk == nullptr) return close(id);
  Node& node = nodes_.at(id);
  came_ = true;
  node.untold_bytes += message.size();
  if (chunk->stream != Chunk::kLiveLine) ++node.taken;
  if (chunk->stream == Chunk::kEnd) {
    node.ended = true;
    return;
  }
  if (chunk->stream <= Chunk::kStderr) node.bytes += chunk->bytes.size();
  if (!take_(node.host, *chunk)) has_room_ = false;
}

void Receiver::close(NodeId id) {
  auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  found->second.channel.reset();
  if (!found->second.awaited) nodes_.erase(found);
  closed_();
}

void Receiver::lost(NodeId id, bool silent) {
  auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  found->second.awaited = false;
  if (silent || !found->second.channel) nodes_.erase(found);
}

// Without room the last count again: the agent then knows that the connection works.
void Receiver::acknowledge(Node& node) {
  if (!node.channel || node.told == node.taken) return;
  if (has_room_) return tell_all(node);
  node.channel->send(rendezvous::encode(OutputTaken{node.told}));
}

void Receiver::tell_all(Node& node) {
  node.told = node.taken;
  node.untold_bytes = 0;
  node.channel->send(rendezvous::encode(OutputTaken{node.told}));
}

void Receiver::room() {
  has_room_ = true;
  for (auto& [id, node] : nodes_) acknowledge(node);
}

// Nodes that wait for an acknowledgement hear that the connection works.
void Receiver::pulse() {
  pulse_ = loop_.call_after(rendezvous::kOutputPulse, [this] {
    for (auto& [id, node] : nodes_) acknowledge(node);
    pulse();
  });
}

void Receiver::turn_ended() {
  if (!std::exchange(came_, false)) return;
  for (auto& [id, node] : nodes_)
    if (node.ended || node.untold_bytes >= rendezvous::kOutputWindow / 8) acknowledge(node);
  if (rest_ != 0) return;
  const auto until = pace_.worked(loop_.now(), Clock::now(), processor_wait_.take());
  if (!until) return;
  pause(true);  // meanwhile the nodes keep their output
  rest_ = loop_.call_at(*until, [this] {
    rest_ = 0;
    pause(false);
  });
}

void Receiver::pause(bool paused) {
  for (auto& [id, node] : nodes_)
    if (node.channel) node.channel->pause(paused);
}

size_t Receiver::connections() const {
  return newcomers_.size() + static_cast<size_t>(std::count_if(nodes_.begin(), nodes_.end(), [](const auto& each) {
           return each.second.channel != nullptr;
         }));
}

std::vector<Receiver::Unfinished> Receiver::unfinished() const {
  std::vector<Unfinished> all;
  for (const auto& [id, node] : nodes_)
    if (node.awaited && !node.ended) all.push_back({node.host, node.bytes, node.channel != nullptr});
  return all;
}

}  // namespace muster::output
