#include "muster/job/crypto.h"

#include <sodium.h>

#include "muster/base/error.h"

namespace muster::job {

void init_crypto() {
  static const bool ready = sodium_init() >= 0;
  MUSTER_CHECK(ready);
}

}  // namespace muster::job
