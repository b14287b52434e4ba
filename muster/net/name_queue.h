#pragma once

#include <functional>
#include <list>
#include <set>
#include <string>
#include <vector>

#include "muster/net/event_loop.h"
#include "muster/net/resolve.h"

namespace muster::net {

// Looks up many names, possibly thousands, without blocking, a few at a time, because each lookup needs a thread
// (Lookup). A resolver that hangs delays only the names that wait in this queue.
class NameQueue {
 public:
  static constexpr size_t kAtOnce = 4;

  // Not called for a name that cannot be resolved.
  using Found = std::function<void(const std::string& name, const std::vector<Address>& addresses)>;

  // `found` is called from the loop; for a numeric address from ask(). It may not destroy the queue.
  NameQueue(EventLoop& loop, Found found, Resolver resolver = ask_system);
  ~NameQueue();  // gives up
  NameQueue(const NameQueue&) = delete;
  NameQueue& operator=(const NameQueue&) = delete;

  // A name that is asked for several times before the answer is looked up once.
  void ask(const std::string& name);

 private:
  struct Question {
    std::string name;
    std::unique_ptr<Lookup> lookup;  // set when it is asked
  };
  using Questions = std::list<Question>;

  void ask_more();
  void answered(Questions::iterator question);

  EventLoop& loop_;
  Found found_;
  Resolver resolver_;
  Questions waiting_, asked_;
  std::set<std::string> open_;  // the names in both of these
};

}  // namespace muster::net
