#include "muster/cluster/adapters.h"

#include <fmt/format.h>

namespace muster::cluster::worker {
namespace {

class WorkerAdapter final : public Adapter {
 public:
  std::string_view name() const override { return "worker"; }

  // A launcher inside a worker starts a job of its own; the nodes belong to the one around it.
  Result<std::optional<Surroundings>> detect(const GetEnv& getenv, const ReadFile& /*read_file*/) const override {
    auto id = getenv("TORCHELASTIC_RUN_ID"), rank = getenv("RANK"), local_rank = getenv("LOCAL_RANK");
    if (!id || !rank || !local_rank) return std::optional<Surroundings>();
    Surroundings here;
    here.role = Role::kWorker;
    here.what = fmt::format("inside rank {} of another job", *rank);
    here.clues = {{"TORCHELASTIC_RUN_ID", *id, "set by muster or torchrun for their workers"},
                  {"RANK", *rank, "which worker this is"},
                  {"LOCAL_RANK", *local_rank, "and on this node"}};
    return std::optional(std::move(here));
  }
};

}  // namespace

const Adapter& adapter() {
  static const WorkerAdapter only;
  return only;
}

}  // namespace muster::cluster::worker
