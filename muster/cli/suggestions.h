#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/cli/options.h"

namespace muster::cli {

// What a word that is not understood was probably meant to be. Pure. No suggestion is better than a wrong one.

// The option that other launchers (srun, mpirun, accelerate, deepspeed) call so: "-n 2", "-n2", "-np 2", "-H n1,n2".
std::optional<Opt> known_elsewhere(std::string_view word);

// The options of `verb` that `name` ("nporc", without dashes in front) was probably meant to be, the first in the
// table first: one mistyped, or all that have the words of `name` in theirs ("timeout"). Empty: it resembles none.
std::vector<const Option*> resembled_options(Verb verb, std::string_view name);

// Whether an option tells a launcher what to start: a program has hardly one of that name.
bool belongs_to_launchers(Opt id);

// What to do about a first word that is not a verb: "did you mean 'muster run'?".
std::string hint_for_verb(std::string_view word, std::string_view command);

}  // namespace muster::cli
