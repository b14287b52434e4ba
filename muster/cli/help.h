#pragma once

#include <string>

#include "muster/cli/options.h"
#include "muster/cli/text_layout.h"

namespace muster::cli {

// `muster --help`
std::string general_help(const TextStyle& style);
// `muster <verb> --help`; `program` is what the user typed ("muster run", "torchrun").
std::string verb_help(Verb verb, std::string_view program, const TextStyle& style);

// "-t, --tee MASK|RANK:MASK,…"
std::string option_heading(const Option& option);
// The help text with default, choices and variable, as `verb` has them.
std::string option_text(const Option& option, Verb verb);

// argparse's usage text, wrapped to `columns`.
std::string argparse_usage(Verb verb, std::string_view program, int columns);

}  // namespace muster::cli
