#include <nlohmann/json.hpp>

#include "muster/base/version.h"
#include "muster/cli/commands.h"

namespace muster::cli {

int version_command(const Parsed& parsed) {
  if (!parsed.flag(Opt::kJson)) return print(fmt::format("muster {}\n", version()));
  nlohmann::ordered_json json = {{"name", "muster"},
                                 {"version", version()},
                                 {"torchrun", "2.13"},
                                 {"store_protocols", {{"oldest", "1.13"}, {"newest", "2.15"}}}};
  return print(json.dump(2) + "\n");
}

}  // namespace muster::cli
