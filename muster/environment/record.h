#pragma once

#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/process/spawn.h"

namespace muster::environment {

// What a job ran with, kept for later.
struct RecordRequest {
  std::string directory;           // --record
  std::string job;                 // its id: the name of the folder in it
  std::string host;                // whose environment this is
  std::vector<std::string> words;  // the command line, masked
  std::string working_directory;   // of the workers
  Environment environment;         // of the workers
};

// Whether a record can be kept there; makes the directory. kUsage.
Result<void> check_record_directory(const std::string& directory);

// Files of directory/<job>, or <job>-2 … where that is taken: command.txt, environment.txt, versions.json, git.txt and
// git.diff (in a working tree), pip-freeze.txt, conda-list.txt, nvidia-smi.txt, scheduler.txt, and record.json, which
// lists them with what could not be had and why. The folder appears under its name when it is whole. Secrets are
// masked. Asks programs, one after the other, until the deadline; returns the folder's path.
Result<std::string> record(const RecordRequest& request, Deadline deadline);

// The name of a folder for any id; pure.
std::string folder_name(std::string_view job);

}  // namespace muster::environment
