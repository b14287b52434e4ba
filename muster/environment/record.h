#pragma once

#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/process/spawn.h"

namespace muster::environment {

// A record of what a job ran with (--record).
struct RecordRequest {
  std::string directory;           // --record
  std::string job;                 // its id, which names the folder
  std::string host;                // the node that the environment is from
  std::vector<std::string> words;  // the command line, masked
  std::string working_directory;   // of the workers
  Environment environment;         // of the workers
};

// Creates the directory. Error kUsage: no record can be written there.
Result<void> check_record_directory(const std::string& directory);

// Writes the record to directory/<job>, or to <job>-2 … if that exists: command.txt, environment.txt, versions.json,
// git.txt and git.diff (in a working tree), pip-freeze.txt, conda-list.txt, nvidia-smi.txt, scheduler.txt, and
// record.json, which lists the files and says why one is missing. The folder gets its name when it is complete. Secrets
// are masked. Blocks: runs programs, one after the other, until the deadline. Returns the path of the folder.
Result<std::string> record(const RecordRequest& request, Deadline deadline);

// A valid folder name for any id. Pure.
std::string folder_name(std::string_view job);

}  // namespace muster::environment
