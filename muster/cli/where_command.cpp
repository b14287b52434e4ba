#include "muster/cli/commands.h"

namespace muster::cli {

int where_command(const Parsed& /*parsed*/) { return print("nothing is known yet\n"); }

}  // namespace muster::cli
