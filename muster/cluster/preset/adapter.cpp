#include "muster/cluster/adapters.h"

#include <fmt/format.h>

#include "muster/base/strings.h"

namespace muster::cluster::preset {
namespace {

constexpr int64_t kMostNodes = 1'000'000;
constexpr size_t kShown = 80;  // of a value that makes no sense

class Detection {
 public:
  explicit Detection(const GetEnv& getenv) : getenv_(getenv) {}

  Result<std::optional<Surroundings>> run() {
    here_.role = Role::kPreset;
    if (getenv_("LOCAL_RANK")) return std::optional<Surroundings>();
    if (getenv_("PET_NNODES") && (getenv_("PET_MASTER_ADDR") || getenv_("PET_RDZV_ENDPOINT")))
      return torchrun_options();
    return plain_variables();
  }

 private:
  std::optional<std::string> take(const char* name, std::string meaning) {
    auto value = getenv_(name);
    if (!value || value->empty()) return std::nullopt;
    here_.clues.push_back({name, *value, std::move(meaning)});
    return value;
  }

  // They are read as the options that they are; here they only get a name.
  Result<std::optional<Surroundings>> torchrun_options() {
    for (const char* name : {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT",
                             "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID"})
      (void)take(name, fmt::format("as --{}", option_name(name)));
    here_.what = "options of torchrun in PET_* variables";
    return std::optional(std::move(here_));
  }

  static std::string option_name(std::string_view variable) {
    std::string name = lower_case(variable.substr(std::string_view("PET_").size()));
    for (char& c : name)
      if (c == '_') c = '-';
    return name;
  }

  Result<std::optional<Surroundings>> plain_variables() {
    const auto address = take("MASTER_ADDR", "where the nodes meet");
    auto nodes = take("NNODES", "how many nodes");
    const char* nodes_name = nodes ? "NNODES" : "WORLD_SIZE";
    if (!nodes) nodes = take("WORLD_SIZE", "how many nodes: one process was started on each");
    auto rank = take("NODE_RANK", "number of this node");
    const char* rank_name = rank ? "NODE_RANK" : "RANK";
    if (!rank) rank = take("RANK", "number of this node");
    if (!address || !nodes || !rank) return std::optional<Surroundings>();
    here_.master_addr = *address;
    MUSTER_TRY(here_.world_nodes, number(nodes_name, *nodes, 1, kMostNodes));
    MUSTER_TRY(here_.node_rank, number(rank_name, *rank, 0, *here_.world_nodes - 1));
    if (auto port = take("MASTER_PORT", "and on which port")) {
      MUSTER_TRY(here_.master_port, number("MASTER_PORT", *port, 1, UINT16_MAX));
    }
    here_.what = fmt::format("node {} of {} that meet at {}, preset in the environment", *here_.node_rank,
                             *here_.world_nodes, here_.master_addr.substr(0, kShown));
    return std::optional(std::move(here_));
  }

  static Result<int> number(std::string_view name, const std::string& text, int64_t least, int64_t most) {
    auto value = parse_int(text);
    if (value && *value >= least && *value <= most) return static_cast<int>(*value);
    return Error{ErrorKind::kUsage,
                 fmt::format("{}='{}' is preset in the environment, and is not a number from {} to {}", name,
                             text.substr(0, kShown), least, most),
                 fmt::format("set it right, unset it, or stay on this node with --mode local")};
  }

  const GetEnv& getenv_;
  Surroundings here_;
};

class PresetAdapter final : public Adapter {
 public:
  std::string_view name() const override { return "preset"; }
  Result<std::optional<Surroundings>> detect(const GetEnv& getenv, const ReadFile& /*read_file*/) const override {
    return Detection(getenv).run();
  }
};

}  // namespace

const Adapter& adapter() {
  static const PresetAdapter only;
  return only;
}

}  // namespace muster::cluster::preset
