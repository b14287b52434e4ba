#include "muster/agent/traces.h"

#include "muster/agent/log_layout.h"
#include "muster/agent/script_file.h"
#include "muster/container/prepare.h"

namespace muster::agent {

void remove_containers(const JobSpec& job) {
  constexpr auto kTime = std::chrono::seconds(20);
  if (job.container) container::clean_up(*job.container, job.environment, Deadline::in(kTime));
}

void remove_traces(const JobSpec& job, const ScratchNote& scratch) {
  remove_empty_directories(scratch.directory());
  remove_containers(job);
  remove_script(job.command);
}

}  // namespace muster::agent
