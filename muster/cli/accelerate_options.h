#pragma once

#include <string_view>
#include <vector>

#include "muster/accelerate/options.h"
#include "muster/cli/options.h"

namespace muster::cli {

// accelerate's own table in the form of ours, for help, man page and completion.
Option shown_option(const accelerate::Option& option);

// Every option that a verb takes: the table's, and for accelerate its own.
std::vector<Option> options_of(Verb verb);

// Whether `accelerate launch` takes an option of muster's too: those that neither accelerate nor torchrun has.
bool accelerate_takes(const Option& option);

}  // namespace muster::cli
