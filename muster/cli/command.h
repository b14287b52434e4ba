#pragma once

#include "muster/cli/argument_parser.h"
#include "muster/cli/facts.h"
#include "muster/job/spec.h"

namespace muster::cli {

// What a worker executes, and by which Python (empty: by none).
struct WorkerCommand {
  job::Command command;
  std::string python;
};

// PROGRAM as `verb` understands it:
//   run                  x.py, zipapp, package directory, script whose first line starts muster -> python -u;
//                        an executable (here or on PATH) -> itself; anything else -> python -u
//   torchrun, launch     python -u, always
//   --no-python          the program itself, found through PATH;  -m  python -u -m;  --run-path  python -u
Result<WorkerCommand> worker_command(Verb verb, const Parsed& parsed, const Facts& facts);

// The same for a script that the job brings along (script.h), kept in `file`.
Result<WorkerCommand> script_command(const Parsed& parsed, const Facts& facts, const std::string& file);

}  // namespace muster::cli
