#include "muster/rendezvous/finder.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>

#include "muster/net/interfaces.h"

namespace muster::rendezvous {

Finder::Finder(net::EventLoop& loop, const std::vector<std::string>& endpoints, const Channel::Options& options,
               Duration each, Deadline deadline, Done done, Questions questions)
    : loop_(loop), questions_(std::move(questions)) {
  for (const std::string& endpoint : endpoints) add(endpoint);
  connector_ = Connector::start(loop, {}, options, each, deadline,
                                [this, done = std::move(done)](Result<std::unique_ptr<Channel>> channel) {
                                  stop_asking();
                                  done(std::move(channel));
                                });
  for (Host& host : hosts_)
    if (host.addresses.empty()) look_up(host);
  aim();
}

Finder::~Finder() { stop_asking(); }

void Finder::add(const std::string& endpoint) {
  auto parts = net::split_endpoint(endpoint);
  if (!parts) return malformed_.push_back({endpoint, parts.error().message});
  auto found = std::find_if(hosts_.begin(), hosts_.end(), [&](const Host& host) { return host.name == parts->host; });
  if (found == hosts_.end()) {
    found = hosts_.emplace(hosts_.end());
    found->name = parts->host;
    if (auto numeric = net::parse_address(parts->host, 0)) found->addresses = {*numeric};
  }
  found->ports.push_back(*parts->port);
}

void Finder::look_up(Host& host) {
  if (host.failure.empty() && host.addresses.empty())
    host.failure = fmt::format("no answer from the resolver for '{}'", host.name);
  host.lookup = std::make_unique<net::Lookup>(host.name, questions_.resolver);
  if (host.lookup->fd() < 0) return answered(host);
  loop_.watch(host.lookup->fd(), EPOLLIN, [this, &host](uint32_t) { answered(host); });
}

void Finder::unwatch(const net::Lookup& lookup) {
  if (lookup.fd() >= 0) loop_.unwatch(lookup.fd());
}

void Finder::answered(Host& host) {
  unwatch(*host.lookup);
  auto found = host.lookup->take(Deadline::in(Duration(0)));
  host.lookup.reset();
  // A resolver that fails now and then makes nobody forget what it said before.
  host.failure = found ? "" : found.error().message;
  if (found) host.addresses = *std::move(found);
  const Duration pause = host.addresses.empty() ? questions_.unknown : questions_.known;
  host.again = loop_.call_after(pause, [this, &host] { look_up(host); });
  aim();
}

void Finder::aim() {
  std::vector<net::Address> addresses;
  std::vector<Connector::Hindrance> hindrances = malformed_;
  for (const Host& host : hosts_) {
    for (uint16_t port : host.ports)
      for (const net::Address& address : host.addresses) addresses.push_back(address.with_port(port));
    if (!host.addresses.empty()) continue;
    const std::string where = host.ports.size() == 1 ? fmt::format("{}:{}", host.name, host.ports[0]) : host.name;
    hindrances.push_back({where, host.failure});
  }
  connector_->aim_at(std::move(addresses), std::move(hindrances));
}

void Finder::stop_asking() {
  for (Host& host : hosts_) {
    loop_.cancel(host.again);
    if (host.lookup) unwatch(*host.lookup);
    host.lookup.reset();
  }
}

}  // namespace muster::rendezvous
