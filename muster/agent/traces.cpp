#include "muster/agent/traces.h"

#include "muster/agent/script_file.h"
#include "muster/container/prepare.h"
#include "muster/output/log_layout.h"

namespace muster::agent {

void remove_containers(const job::JobSpec& job) {
  constexpr auto kTime = std::chrono::seconds(20);
  if (job.container) container::clean_up(*job.container, job.environment, Deadline::in(kTime));
}

void remove_traces(const job::JobSpec& job, const ScratchNote& scratch) {
  output::remove_empty_directories(scratch.directory());
  remove_containers(job);
  remove_script(job.command);
}

}  // namespace muster::agent
