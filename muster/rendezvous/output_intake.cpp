#include "muster/rendezvous/output_intake.h"

#include <algorithm>

namespace muster::rendezvous {

OutputIntake::OutputIntake(net::EventLoop& loop, Take take, std::function<void()> closed)
    : loop_(loop), take_(std::move(take)), closed_(std::move(closed)) {
  pulse();
}

OutputIntake::~OutputIntake() {
  loop_.cancel(rest_);
  loop_.cancel(pulse_);
}

void OutputIntake::expect(NodeId node, const std::string& host) { nodes_[node].host = host; }

bool OutputIntake::adopt(NodeId id, std::unique_ptr<Channel> channel) {
  auto found = nodes_.find(id);
  if (found == nodes_.end() || !found->second.awaited) return false;
  Node& node = found->second;
  node.channel = std::move(channel);
  node.channel->resume_on(loop_, {.opened = {},
                                  .received = [this, id](std::string_view message) { received(id, message); },
                                  .closed = [this, id](const Error&) { close(id); },
                                  .drained = {}});
  node.channel->pause(rest_ != 0);
  // All that were taken, room or not: the agent sends what follows them, and no chunk may come twice.
  tell_all(node);
  return true;
}

void OutputIntake::received(NodeId id, std::string_view message) {
  auto decoded = decode(message);
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

void OutputIntake::close(NodeId id) {
  auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  found->second.channel.reset();
  if (!found->second.awaited) nodes_.erase(found);
  closed_();
}

void OutputIntake::lost(NodeId id, bool silent) {
  auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  found->second.awaited = false;
  if (silent || !found->second.channel) nodes_.erase(found);
}

// Without room the last count again: the agent then knows that the connection works.
void OutputIntake::acknowledge(Node& node) {
  if (!node.channel || node.told == node.taken) return;
  if (has_room_) return tell_all(node);
  node.channel->send(encode(OutputTaken{node.told}));
}

void OutputIntake::tell_all(Node& node) {
  node.told = node.taken;
  node.untold_bytes = 0;
  node.channel->send(encode(OutputTaken{node.told}));
}

void OutputIntake::room() {
  has_room_ = true;
  for (auto& [id, node] : nodes_) acknowledge(node);
}

// Nodes that wait for an acknowledgement hear that the connection works.
void OutputIntake::pulse() {
  pulse_ = loop_.call_after(kOutputPulse, [this] {
    for (auto& [id, node] : nodes_) acknowledge(node);
    pulse();
  });
}

void OutputIntake::turn_ended() {
  if (!std::exchange(came_, false)) return;
  for (auto& [id, node] : nodes_)
    if (node.ended || node.untold_bytes >= kOutputWindow / 8) acknowledge(node);
  if (rest_ != 0) return;
  const auto until = pace_.worked(loop_.now(), Clock::now(), processor_wait_.take());
  if (!until) return;
  pause(true);  // meanwhile the nodes keep their output
  rest_ = loop_.call_at(*until, [this] {
    rest_ = 0;
    pause(false);
  });
}

void OutputIntake::pause(bool paused) {
  for (auto& [id, node] : nodes_)
    if (node.channel) node.channel->pause(paused);
}

size_t OutputIntake::connections() const {
  return static_cast<size_t>(
      std::count_if(nodes_.begin(), nodes_.end(), [](const auto& each) { return each.second.channel != nullptr; }));
}

std::vector<OutputIntake::Unfinished> OutputIntake::unfinished() const {
  std::vector<Unfinished> all;
  for (const auto& [id, node] : nodes_)
    if (node.awaited && !node.ended) all.push_back({node.host, node.bytes, node.channel != nullptr});
  return all;
}

}  // namespace muster::rendezvous
