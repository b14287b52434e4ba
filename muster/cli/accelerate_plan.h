#pragma once

#include "muster/accelerate/command_line.h"
#include "muster/accelerate/translate.h"
#include "muster/cli/job_options.h"

namespace muster::cli {

// What muster's own options are to `accelerate launch`: all that neither accelerate nor torchrun has (--hosts, --container,
// --dry-run …) may be given there too. `--env` is ours; accelerate's is for TPUs.
accelerate::OwnOption own_option(std::string_view name);

// `accelerate launch` in the words of `muster run`, on this machine.
struct AccelerateJob {
  accelerate::Launch launch;
  Parsed parsed;
  std::vector<std::string> arguments;  // for agents: no config file is needed to read them
};

// Reads the config file, if there is one. Notes about it are added to `notes`.
Result<accelerate::CommandLine> read_accelerate(const std::vector<std::string>& arguments, const Facts& facts,
                                                std::vector<std::string>& notes);
Result<AccelerateJob> translate_accelerate(const accelerate::CommandLine& line, const Facts& facts);
Result<JobPlan> plan_accelerate(const AccelerateJob& job, const Facts& facts);

// The part of an agent, from the `arguments` above.
Result<JobPlan> plan_accelerate_part(const std::vector<std::string>& arguments, const Facts& facts,
                                     const Assignment& assignment);

}  // namespace muster::cli
