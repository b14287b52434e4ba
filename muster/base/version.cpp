#include "muster/base/version.h"

namespace muster {

std::string_view version() { return MUSTER_PROJECT_VERSION; }

}  // namespace muster
