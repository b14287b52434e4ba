#pragma once

#include "muster/cli/facts.h"

namespace muster::cli {

// The fact of that name, for real. While it takes long, says what it is at; with --verbose, and when it fails, what the
// lines printed. `launcher`: as in real_facts().
Result<Environment> set_up(const environment::Setup& setup, const Environment& before, const SetUpManner& manner,
                           int launcher);

}  // namespace muster::cli
