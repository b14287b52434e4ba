#pragma once

#include <string>
#include <vector>

#include "muster/cli/argument_parser.h"
#include "muster/job/request.h"
#include "muster/plan/plan.h"

namespace muster::cli {

// What a command line asks for, and what is to be said about its words.
struct Asking {
  job::Request request;
  std::vector<plan::Note> notes;
};

// The request of `muster run`, `torchrun` or `launch`. Values that are wrong whatever machine this is are errors here,
// with the name of the option, or of the variable that they came from, in front. Pure but for `getenv`.
Result<Asking> make_request(Verb verb, const Parsed& parsed, const GetEnv& getenv);

}  // namespace muster::cli
