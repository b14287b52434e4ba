#include "muster/cluster/adapters.h"

#include "muster/cluster/local/starter.h"

namespace muster::cluster::local {
namespace {

class LocalAdapter final : public Adapter {
 public:
  std::string_view name() const override { return "local"; }
  bool is_local() const override { return true; }
  std::unique_ptr<Starter> make_starter(net::EventLoop& loop, const StartOptions& options,
                                        const Environment& environment,
                                        const Starter::Handlers& handlers) const override {
    return local::make_starter(loop, options.program, environment, handlers);
  }
};

}  // namespace

const Adapter& adapter() {
  static const LocalAdapter only;
  return only;
}

}  // namespace muster::cluster::local
