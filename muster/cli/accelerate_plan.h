#pragma once

#include "muster/accelerate/command_line.h"
#include "muster/accelerate/translate.h"
#include "muster/plan/plan.h"

namespace muster::cli {

// What muster's own options are to `accelerate launch`: all that neither accelerate nor torchrun has (--hosts, --container,
// --dry-run …) may be given there too. `--env` is ours; accelerate's is for TPUs.
accelerate::OwnOption own_option(std::string_view name);

// What `accelerate launch` asks for, as a request.
struct AccelerateJob {
  accelerate::Launch launch;
  job::Request request;
  bool json = false;
};

// Reads the config file, if there is one. Notes about it are added to `notes`.
Result<accelerate::CommandLine> read_accelerate(const std::vector<std::string>& arguments,
                                                std::vector<std::string>& notes);
Result<AccelerateJob> translate_accelerate(const accelerate::CommandLine& line, const plan::Facts& facts);
Result<plan::JobPlan> plan_accelerate(const AccelerateJob& job, plan::Facts& facts);

// The part of an agent: what follows from this machine.
Result<void> complete_accelerate(job::Request& request, const plan::Assignment& assignment);

}  // namespace muster::cli
