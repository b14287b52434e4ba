#include "muster/cluster/adapters.h"

#include "muster/cluster/ssh/starter.h"

namespace muster::cluster::ssh {
namespace {

class SshAdapter final : public Adapter {
 public:
  std::string_view name() const override { return "ssh"; }
  std::unique_ptr<Starter> make_starter(net::EventLoop& loop, const StartOptions& options,
                                        const Environment& environment,
                                        const Starter::Handlers& handlers) const override {
    return ssh::make_starter(loop, options_from(options), environment, handlers);
  }
};

}  // namespace

const Adapter& adapter() {
  static const SshAdapter only;
  return only;
}

}  // namespace muster::cluster::ssh
