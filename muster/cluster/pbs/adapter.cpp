#include "muster/cluster/adapters.h"

#include <fmt/format.h>
#include <unistd.h>

#include "muster/base/strings.h"
#include "muster/cluster/pbs/detect.h"
#include "muster/cluster/pbs/starter.h"
#include "muster/cluster/pbs/time_left.h"
#include "muster/cluster/pbs/tools.h"
#include "muster/process/proc.h"

namespace muster::cluster::pbs {
namespace {

class PbsAdapter final : public Adapter {
 public:
  std::string_view name() const override { return "pbs"; }
  std::string_view title() const override { return "PBS"; }

  Result<std::optional<Surroundings>> detect(const GetEnv& getenv, const ReadFile& read_file) const override {
    return pbs::detect(getenv, read_file);
  }

  std::string job_number(const GetEnv& getenv) const override {
    const std::string id = getenv("PBS_JOBID").value_or("");  // with the server behind a dot
    return id.substr(0, id.find('.'));
  }

  std::string job_name(const GetEnv& getenv) const override {
    const std::string id = getenv("PBS_JOBID").value_or("");
    return id.empty() ? id : "PBS job " + id;
  }

  // /pbs_jobs.service/jobid/12.server
  std::string job_of_cgroup(std::string_view path) const override {
    bool below = false;
    std::string_view before;
    for (std::string_view part : split(path, '/')) {
      if (below && before == "jobid" && !part.empty()) return fmt::format("PBS job {}", part);
      below = below || part.starts_with("pbs");
      before = part;
    }
    return {};
  }

  std::optional<Environment> first_environment() const override {
    std::optional<Environment> first;
    for (auto process = process::read_proc_stat(::getppid()); process;
         process = process::read_proc_stat(process->parent)) {
      Environment environment = process::first_environment(process->pid);
      if (!environment.has("PBS_JOBID")) break;
      first = std::move(environment);
    }
    return first;
  }

  Result<std::optional<Duration>> time_left(const Surroundings& here, Deadline deadline) const override {
    return pbs::time_left(here, deadline);
  }

  bool agents_ask() const override { return true; }

  Result<Tools> find_tools(const GetEnv& getenv, const FindProgram& find_program,
                           const ReadFile& read_file) const override {
    return pbs::find_tools(getenv, find_program, read_file);
  }

  // A task that pbs_tmrsh starts has none of them, and the user is the same on every node.
  std::vector<std::string> variables_to_send() const override { return {"USER", "LOGNAME"}; }

  void move_to_node(Environment& environment, int position) const override { pbs::move_to_node(environment, position); }

  std::unique_ptr<Starter> make_starter(net::EventLoop& loop, const StartOptions& options,
                                        const Environment& environment,
                                        const Starter::Handlers& handlers) const override {
    return pbs::make_starter(loop, {options}, environment, handlers);
  }
};

}  // namespace

const Adapter& adapter() {
  static const PbsAdapter only;
  return only;
}

}  // namespace muster::cluster::pbs
