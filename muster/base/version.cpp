#include "muster/cli/version.h"

namespace muster::cli {

std::string_view version() { return MUSTER_VERSION; }

}  // namespace muster::cli
