#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/environment.h"

// Python scripts that `python -u FILE` does not fit. All pure.
namespace muster::plan {

// A script may be a file that not every node has: what comes on stdin (`muster run -`), or Slurm's copy of a batch
// script (`sbatch train.py`), which only the first node has. It then travels with the job, and each node keeps it in a
// file while the job runs. Its length is limited, since the launcher sends it to every node.
inline constexpr size_t kLongestScript = 4 << 20;

// PROGRAM of `muster run -`.
inline constexpr const char* kStdinProgram = "-";

// Whether PROGRAM is the copy that Slurm has made of the script of this job.
bool is_spooled(const std::string& program, const Environment& environment);

// The file in which a node keeps such a script: in a directory of its own (`id`) below the one for temporary files.
std::string script_file(const std::string& temporary, const std::string& id, const std::string& program);

// Whether a file that begins with these bytes is a script that muster itself is the interpreter of:
// "#!/usr/bin/env -S muster run", "#!/opt/bin/muster torchrun", also behind srun, nice and the like. To execute such a
// file is to start muster again for the same file, without end. `own_name`: what the file of this program is called
// ("muster-0.2"). Pure.
bool starts_muster(std::string_view beginning, std::string_view own_name = "muster");

// Both: a command line up to the word that becomes sys.argv[0]. That word and the script's arguments follow.
//
// Runs `file` as if it were called otherwise. As with `python -`, modules are first looked for in the working directory.
std::vector<std::string> words_for_file(const std::string& python, const std::string& file);

// --run-path: the script runs below a function, as in torchrun's own interpreter, and its process ends without the
// clean-up of the interpreter: threads of a process group that was not destroyed can abort it there.
std::vector<std::string> words_for_run_path(const std::string& python);

}  // namespace muster::plan
