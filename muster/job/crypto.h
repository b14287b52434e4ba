#pragma once

namespace muster::job {

// Before the first use of libsodium in a function; cheap after the first call, and safe on any thread.
void init_crypto();

}  // namespace muster::job
