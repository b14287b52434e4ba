#include "muster/net/name_queue.h"

#include <sys/epoll.h>

#include <utility>

#include "muster/net/interfaces.h"

namespace muster::net {

NameQueue::NameQueue(EventLoop& loop, Found found, Resolver resolver)
    : loop_(loop), found_(std::move(found)), resolver_(std::move(resolver)) {}

NameQueue::~NameQueue() {
  for (const Question& question : asked_) loop_.unwatch(question.lookup->fd());
}

void NameQueue::ask(const std::string& name) {
  if (auto numeric = parse_address(name, 0)) return found_(name, {*numeric});
  if (!open_.insert(name).second) return;
  waiting_.push_back({name, nullptr});
  ask_more();
}

void NameQueue::ask_more() {
  while (!waiting_.empty() && asked_.size() < kAtOnce) {
    const auto question = waiting_.begin();
    question->lookup = std::make_unique<Lookup>(question->name, resolver_);
    const int ready = question->lookup->fd();
    if (ready < 0) {  // for want of descriptors: nobody was asked
      open_.erase(question->name);
      waiting_.erase(question);
      continue;
    }
    asked_.splice(asked_.end(), waiting_, question);
    loop_.watch(ready, EPOLLIN, [this, question](uint32_t) { answered(question); });
  }
}

void NameQueue::answered(Questions::iterator question) {
  loop_.unwatch(question->lookup->fd());
  const auto addresses = question->lookup->take(Deadline::in(Duration(0)));
  const std::string name = std::move(question->name);
  asked_.erase(question);
  open_.erase(name);
  ask_more();
  if (addresses) found_(name, *addresses);
}

}  // namespace muster::net
