#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/processor_wait.h"
#include "muster/net/event_loop.h"
#include "muster/output/output_pace.h"
#include "muster/rendezvous/channel.h"
#include "muster/rendezvous/protocol.h"

namespace muster::output {

// The launcher's side of the nodes' connections for output; the agents' side is uplink.h.
//
// Both sides count the chunks of a node's life (lines that move are not counted). The launcher acknowledges with
// OutputTaken how many it has taken; the agent keeps what is not acknowledged, and sends it again on a new connection.
// While the launcher has no room no chunk is acknowledged (but for those taken before a connection was made anew), and the
// agent stops when a window of them is on its way; the last count is told again every kOutputPulse, so that the agent
// knows that the connection still works. The last chunk has the stream Chunk::kEnd: a node that has sent it has nothing
// left to send.
class Receiver {
 public:
  // Returns false if there is no room for more; room() ends that.
  using Take = std::function<bool(const std::string& host, const rendezvous::Chunk& chunk)>;
  // A node whose Chunk::kEnd has not come.
  struct Unfinished {
    std::string host;
    uint64_t bytes = 0;      // of stdout and stderr; have come
    bool connected = false;  // now
  };

  // `closed`: a connection has ended.
  Receiver(net::EventLoop& loop, Take take, std::function<void()> closed);
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  void expect(rendezvous::NodeId node, const std::string& host);
  // A connection of an agent that has the token. Its first message says of which node it is; it takes the place of an
  // earlier one of the same node. One that says nothing, or names a node that is not expected, is closed.
  void accept(std::unique_ptr<rendezvous::Channel> channel);
  // No end of its output is awaited any more. A node that is `silent` will not close its connection: it is closed here.
  void lost(rendezvous::NodeId node, bool silent);
  void room();

  size_t connections() const;
  std::vector<Unfinished> unfinished() const;

 private:
  struct Newcomer {
    std::unique_ptr<rendezvous::Channel> channel;
    net::EventLoop::TimerId patience = 0;
  };
  using NewcomerId = std::list<Newcomer>::iterator;

  struct Node {
    std::string host;
    std::unique_ptr<rendezvous::Channel> channel;
    uint64_t taken = 0, told = 0;  // chunks
    uint64_t bytes = 0;
    size_t untold_bytes = 0;  // since the last acknowledgement
    bool awaited = true;
    bool ended = false;
  };

  void introduced(NewcomerId newcomer, std::string_view message);
  void leave(NewcomerId newcomer);
  void adopt(rendezvous::NodeId id, std::unique_ptr<rendezvous::Channel> channel);
  void received(rendezvous::NodeId id, std::string_view message);
  void close(rendezvous::NodeId id);
  void acknowledge(Node& node);
  void tell_all(Node& node);
  void pulse();
  void turn_ended();
  void pause(bool paused);

  net::EventLoop& loop_;
  Take take_;
  std::function<void()> closed_;
  std::list<Newcomer> newcomers_;
  std::map<rendezvous::NodeId, Node> nodes_;
  bool has_room_ = true;
  bool came_ = false;  // in this turn of the loop
  OutputPace pace_;
  ProcessorWait processor_wait_;
  net::EventLoop::TimerId rest_ = 0;  // while it goes on
  net::EventLoop::TimerId pulse_ = 0;
  net::EventLoop::HookId turn_end_;
};

}  // namespace muster::output
