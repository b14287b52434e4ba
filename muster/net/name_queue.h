#pragma once

#include <functional>
#include <list>
#include <set>
#include <string>
#include <vector>

#include "muster/net/event_loop.h"
#include "muster/net/resolve.h"

namespace muster::net {

// Looks many names up without blocking, a few at a time: each takes a thread while it lasts (Lookup), and there may be
// thousands. A resolver that hangs holds up the names behind it and nothing else.
class NameQueue {
 public:
  static constexpr size_t kAtOnce = 4;

  // Of a name that nobody knows nothing is heard.
  using Found = std::function<void(const std::string& name, const std::vector<Address>& addresses)>;

  // `found` is called from the loop; for a numeric address from ask(). It may not destroy the queue.
  NameQueue(EventLoop& loop, Found found, Resolver resolver = ask_system);
  ~NameQueue();  // gives up
  NameQueue(const NameQueue&) = delete;
  NameQueue& operator=(const NameQueue&) = delete;

  // Once for all who ask while there is no answer.
  void ask(const std::string& name);

 private:
  struct Question {
    std::string name;
    std::unique_ptr<Lookup> lookup;  // once it is asked
  };
  using Questions = std::list<Question>;

  void ask_more();
  void answered(Questions::iterator question);

  EventLoop& loop_;
  Found found_;
  Resolver resolver_;
  Questions waiting_, asked_;
  std::set<std::string> open_;  // the names of both
};

}  // namespace muster::net
