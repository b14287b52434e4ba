#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "muster/cli/job_options.h"
#include "muster/cli/values.h"
#include "muster/cluster/adapter.h"

namespace muster::cli {

// plan_job() at work: each step reads the options of one theme, checks them and adds its part to the job. A file a
// theme; this header is for them alone.
class Planner {
 public:
  Planner(Verb verb, const Parsed& parsed, const Facts& facts, const Wishes& wishes,
          const Assignment* assignment = nullptr)
      : verb_(verb),
        ours_(verb == Verb::kRun),
        parsed_(parsed),
        facts_(facts),
        wishes_(wishes),
        assignment_(assignment),
        environment_(facts.environment) {}

  Result<JobPlan> plan();

 private:
  // job_options.cpp: what is run, how often, and what happens when it fails.
  void plan_log_level();
  Result<void> refuse_deep_nesting() const;
  Result<void> refuse_unsupported();
  void note_options_behind();
  Result<void> plan_events();
  process::GpuCount gpus() const;
  Result<int> count(Countable what);
  Result<void> plan_workers();
  void note_fewer_workers();
  Result<void> plan_command();
  bool script_on_stdin() const;
  Result<std::optional<std::string>> carried_script();
  Result<void> plan_failures();
  Result<void> plan_children();
  void plan_environment();
  void hide_other_gpus();
  std::optional<int> cpus_of_pbs() const;
  Result<void> check_descriptors();

  // job_decisions.cpp: what of it is said.
  void say_decisions();
  std::string why_so_many() const;
  std::string why_so_many_threads(const std::string& threads) const;

  // job_nodes.cpp: which nodes there are.
  Result<void> plan_nodes();
  Result<void> share_out_processes();
  Result<void> read_conf();
  Result<void> plan_ports();
  Result<void> check_node_options() const;
  Result<void> plan_member();
  Result<void> plan_membership(rendezvous::MembershipOptions& options, bool is_static);
  Result<std::optional<Duration>> conf_seconds(const std::string& key) const;
  Result<std::string> common_id();
  int nodes_here() const;
  void note_ignored(std::initializer_list<Opt> ids, std::string_view why, std::string_view what = "ignored");
  int simulated_nodes() const;
  void finish_nodes();

  // job_environment.cpp: what this node's workers find.
  Result<void> plan_set_up();
  void check_temporary_directory();
  Result<void> forward_devices(const launcher::FanOut& spec);
  Result<void> check_devices(const environment::Setup& setup) const;
  Result<environment::Setup> read_set_up();
  Result<Environment> given_variables();
  Result<void> plan_env_diff();
  Result<void> plan_record();

  // job_container.cpp: what the workers run in.
  Result<void> plan_container();
  Result<container::Spec> read_container();
  std::string temporary_directory_of_node() const;
  std::vector<std::string> log_directories() const;
  Result<container::Prepared> prepare_container(const container::Spec& spec);
  void look_inside(const std::string& python);

  // job_fan_out.cpp: those that are started from here.
  Result<void> check_hosts_in_front() const;
  Error with_hint_of_hosts(Error missing) const;
  Result<void> plan_named_hosts();
  Result<void> check_loopback(const std::vector<cluster::Host>& hosts) const;
  Result<void> plan_ssh(cluster::SshCommand& ssh) const;
  Result<void> plan_fan_out(std::vector<cluster::Host> hosts, const NodeRange& nodes, const cluster::Adapter& adapter);
  Result<std::vector<cluster::Host>> named_hosts();

  // job_allocation.cpp: those that a scheduler has given us, or that were preset.
  Result<void> plan_here();
  Result<void> plan_local(const NodeRange& asked);
  Result<void> plan_forced_fan_out(const NodeRange& asked);
  void note_strangers(const std::vector<cluster::Host>& hosts);
  void forgive_standalone(const NodeRange& asked);
  void forgive_submit_host();
  void fill(Opt id, std::string value);
  Result<void> plan_allocation(std::vector<cluster::Host> nodes, const NodeRange& asked);
  Result<void> plan_step(const NodeRange& asked, bool forced);
  Result<void> check_step(const NodeRange& asked, bool meets);
  Result<void> number_node(bool meets);
  Result<void> plan_task(bool meets);
  Result<void> plan_small_step(const NodeRange& asked, bool forced);
  Result<void> refuse_bound_gpus();
  Result<void> plan_preset();
  Endpoint derived_endpoint() const;
  std::string derived_name() const;

  Result<void> plan_tools(launcher::FanOut& spec);

  // job_symmetric.cpp: those that each run their own muster.
  Result<void> plan_own_node();
  Result<void> plan_alone(const NodeRange& nodes);
  Result<void> plan_symmetric(const NodeRange& nodes, bool is_static);
  bool declares_spares(const NodeRange& nodes) const;
  Result<Endpoint> meeting_point(bool is_static);
  Result<int> node_rank(int nodes, const Endpoint& endpoint);
  Result<launcher::Symmetric::Hosts> who_hosts(bool is_static, const Endpoint& endpoint);
  void doubt_the_first(launcher::Symmetric& spec);
  Result<std::string> token_file() const;
  Result<std::optional<std::string>> given_secret() const;
  std::string job_name(const NodeRange& nodes, bool secret_given) const;
  Result<job::Token> token(const std::string& meeting, const NodeRange& nodes, launcher::Symmetric& spec);
  Result<job::Token> secret_token(const std::string& meeting, const std::optional<std::string>& secret);

  // job_rendezvous.cpp: where the workers meet.
  Result<void> plan_rendezvous();
  Result<void> plan_static(bool has_endpoint, const Endpoint& endpoint);
  Result<std::string> own_address(Opt id) const;
  Result<void> check_own(Opt id, const std::string& host) const;
  Result<void> fix_port(int port);
  std::string decimal_id() const;
  void plan_store();

  // job_streams.cpp: output, labels and stdin.
  Result<void> plan_output();
  void note_missing_ranks(Opt id, const std::set<int>& ranks);
  Result<void> plan_labels();
  Result<void> plan_stdin();

  // Who this process is in the job.
  bool alone() const { return !assignment_ && std::holds_alternative<std::monostate>(plan_.nodes); }
  launcher::FanOut* fan_out() { return std::get_if<launcher::FanOut>(&plan_.nodes); }
  // Other machines run the workers: what this one has says nothing about theirs.
  bool elsewhere() { return fan_out() != nullptr && !fan_out()->adapter->is_local(); }

  const std::string& text(Opt id) const { return parsed_.text(id); }
  bool standalone() const { return parsed_.flag(Opt::kStandalone); }
  Result<int64_t> integer(Opt id, int64_t min, int64_t max) const;
  Result<Duration> seconds(Opt id, double min) const;
  // The error of an option's value, with the option's name, or that of the variable it came from, in front.
  Error about(Opt id, Error error) const;
  // An agent's launcher has said it already.
  void note(LogLevel level, std::string text) {
    if (!assignment_) plan_.notes.push_back({level, std::move(text)});
  }

  const Verb verb_;
  const bool ours_;
  Parsed parsed_;  // with what the surroundings say where nothing was given
  const Facts& facts_;
  const Wishes& wishes_;
  const Assignment* const assignment_;         // of an agent; else null
  Environment environment_;                    // of this process, as it is after the set-up
  std::set<std::string> given_variables_;      // what of it was given expressly
  std::optional<Facts> inside_;                // what there is for workers in a container; none: what the node has
  std::optional<cluster::Surroundings> here_;  // where that decides
  bool derived_ = false;                       // the nodes of a step find each other by its name
  std::map<std::string, std::string> conf_;
  job::PortRange ports_;
  bool loopback_ = false;  // --interface has nothing else
  JobPlan plan_;
  job::JobSpec& job_ = plan_.job;
  bool old_torch_ = false;
};

}  // namespace muster::cli
