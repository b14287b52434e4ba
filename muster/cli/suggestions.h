#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/cli/options.h"

namespace muster::cli {

// Guesses what an unknown word was meant to be. Pure. Makes no suggestion rather than a wrong one.

// The option that has this name in other launchers (srun, mpirun, accelerate, deepspeed): "-n 2", "-n2", "-np 2",
// "-H n1,n2".
std::optional<Opt> known_elsewhere(std::string_view word);

// The options of `verb` that `name` ("nporc", without leading dashes) resembles, in the order of the table: one option
// that was mistyped, or all options whose names contain the words of `name` ("timeout"). Empty: it resembles none.
std::vector<const Option*> resembled_options(Verb verb, std::string_view name);

// Whether an option tells a launcher what to start. A program hardly has an option with this name.
bool belongs_to_launchers(Opt id);

// The hint for a first word that is not a verb: "did you mean 'muster run'?".
std::string hint_for_verb(std::string_view word, std::string_view command);

}  // namespace muster::cli
