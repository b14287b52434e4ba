#pragma once

#include <optional>
#include <string>

#include "muster/cli/options.h"
#include "muster/cli/text_layout.h"

namespace muster::cli {

// `muster --help`
std::string general_help(const TextStyle& style);
// --help fits a screen: the options that people use most, or every option in a few words if there are few. --help-all
// explains every option. The --help of torchrun and launch does that too, as their users expect.
enum class Detail { kCommon, kAll };
// `muster <verb> --help`; `program` is what the user typed ("muster run", "torchrun").
std::string verb_help(Verb verb, std::string_view program, Detail detail, const TextStyle& style);
// Whether the option asks for help, and for how much.
std::optional<Detail> asks_for_help(std::optional<Opt> option);

// "-t, --tee MASK|RANK:MASK,…"
std::string option_heading(const Option& option);
// The help text with default, choices and variable, as `verb` has them.
std::string option_text(const Option& option, Verb verb);

// argparse's usage text, wrapped to `columns`.
std::string argparse_usage(Verb verb, std::string_view program, int columns);

}  // namespace muster::cli
