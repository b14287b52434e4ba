#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/processor_wait.h"
#include "muster/net/event_loop.h"
#include "muster/rendezvous/channel.h"
#include "muster/rendezvous/output_pace.h"
#include "muster/rendezvous/protocol.h"

namespace muster::rendezvous {

// The coordinator's side of the nodes' connections for output.
//
// Both sides count the chunks of a node's life (lines that move are not counted). The coordinator acknowledges with
// OutputTaken how many it has taken; the agent keeps what is not acknowledged, and sends it again on a new connection.
// While the client has no room no chunk is acknowledged (but for those taken before a connection was made anew), and the
// agent stops when a window of them is on its way; the last count is told again every kOutputPulse, so that the agent
// knows that the connection still works. The last chunk has the stream Chunk::kEnd: a node that has sent it has nothing
// left to send.
class OutputIntake {
 public:
  // Returns false if there is no room for more; room() ends that.
  using Take = std::function<bool(const std::string& host, const Chunk& chunk)>;
  // A node whose Chunk::kEnd has not come.
  struct Unfinished {
    std::string host;
    uint64_t bytes = 0;      // of stdout and stderr; have come
    bool connected = false;  // now
  };

  // `closed`: a connection has ended.
  OutputIntake(net::EventLoop& loop, Take take, std::function<void()> closed);
  ~OutputIntake();
  OutputIntake(const OutputIntake&) = delete;
  OutputIntake& operator=(const OutputIntake&) = delete;

  void expect(NodeId node, const std::string& host);
  // The channel has said OutputHello. It takes the place of an earlier one of the same node. False: unknown node.
  bool adopt(NodeId node, std::unique_ptr<Channel> channel);
  // No end of its output is awaited any more. A node that is `silent` will not close its connection: it is closed here.
  void lost(NodeId node, bool silent);
  void room();
  // For the end of a turn of the loop.
  void turn_ended();

  size_t connections() const;
  std::vector<Unfinished> unfinished() const;

 private:
  struct Node {
    std::string host;
    std::unique_ptr<Channel> channel;
    uint64_t taken = 0, told = 0;  // chunks
    uint64_t bytes = 0;
    size_t untold_bytes = 0;  // since the last acknowledgement
    bool awaited = true;
    bool ended = false;
  };

  void received(NodeId id, std::string_view message);
  void close(NodeId id);
  void acknowledge(Node& node);
  void tell_all(Node& node);
  void pulse();
  void pause(bool paused);

  net::EventLoop& loop_;
  Take take_;
  std::function<void()> closed_;
  std::map<NodeId, Node> nodes_;
  bool has_room_ = true;
  bool came_ = false;  // in this turn of the loop
  OutputPace pace_;
  ProcessorWait processor_wait_;
  net::EventLoop::TimerId rest_ = 0;  // while it goes on
  net::EventLoop::TimerId pulse_ = 0;
};

}  // namespace muster::rendezvous
