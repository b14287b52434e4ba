#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "muster/job/request.h"
#include "muster/plan/plan.h"

namespace muster::plan {

// The facts as the steps of a plan read them. If a fact is missing, the first such question is noted, and a step gets a
// placeholder: what comes of it is thrown away (plan()).
class Known {
 public:
  explicit Known(const Facts& facts) : facts_(facts) {}

  const Facts& plain() const { return facts_; }
  // As it is now: after the set-up, if there was one.
  const Environment& environment() const { return facts_.left_by_set_up ? *facts_.left_by_set_up : facts_.environment; }
  std::optional<std::string> variable(std::string_view name) const { return environment().get(name); }

  // A fact that is always there.
  template <typename T>
  T get(Topic topic, const std::string& subject = {}) const {
    const Answer* answer = look_up({topic, subject});
    return answer == nullptr ? T() : std::get<T>(*answer);
  }
  // One that may be an error.
  template <typename T>
  Result<T> find(Topic topic, const std::string& subject = {}) const {
    const Answer* answer = look_up({topic, subject});
    if (answer == nullptr) return Error{ErrorKind::kSystem, "not known yet", {}};
    if (const Error* error = std::get_if<Error>(answer)) return *error;
    return std::get<T>(*answer);
  }

  process::GpuCount gpus() const { return get<process::GpuCount>(Topic::kGpus); }
  PathKind path_kind(const std::string& path) const { return get<PathKind>(Topic::kPathKind, path); }
  Result<std::string> find_program(const std::string& name) const { return find<std::string>(Topic::kProgram, name); }
  Result<bool> is_this_machine(const std::string& host) const { return find<bool>(Topic::kIsThisMachine, host); }
  Result<std::string> file(const std::string& path) const { return find<std::string>(Topic::kFile, path); }
  // $TMPDIR if it is a directory, else /tmp.
  std::string temporary_directory() const;

  const std::optional<Question>& missing() const { return missing_; }

 private:
  const Answer* look_up(const Question& question) const {
    if (auto found = facts_.answers.find(question); found != facts_.answers.end()) return &found->second;
    if (!missing_) missing_ = question;
    return nullptr;
  }

  const Facts& facts_;
  mutable std::optional<Question> missing_;
};

// What is worth saying about the job. Of an agent: nothing, since its launcher has said it.
class Notes {
 public:
  explicit Notes(bool agent) : agent_(agent) {}
  void add(LogLevel level, std::string text) {
    if (!agent_) add_own(level, std::move(text));
  }
  // Of this node alone.
  void add_own(LogLevel level, std::string text) { all_.push_back({level, std::move(text)}); }
  // "--node-rank, --master-addr are ignored: why", of those that were given.
  void ignored(std::initializer_list<const job::Source*> sources, std::string_view why,
               std::string_view what = "ignored");
  std::vector<Note> take() { return std::move(all_); }

 private:
  const bool agent_;
  std::vector<Note> all_;
};

// What the surroundings come to.
struct Settled {
  job::Request request;                       // with what they say where nothing was given
  std::optional<cluster::Surroundings> here;  // where that decides
  bool derived = false;                       // the nodes of a step find each other by its name
};

// Where the workers meet, and what the job is called.
struct Meeting {
  std::string backend = "c10d";
  std::string run_id;
  std::string master_addr;
  uint16_t master_port = 0;
};

// Which nodes there are, and how they are started.
struct Nodes {
  std::variant<std::monostate, launcher::FanOut, launcher::Symmetric> start;
  std::optional<job::Membership> membership;  // of this node in a job of several
  Meeting meeting;
  Environment devices;  // for every node: devices that the user has chosen
  std::string why;

  const launcher::FanOut* fan_out() const { return std::get_if<launcher::FanOut>(&start); }
  const launcher::Symmetric* symmetric() const { return std::get_if<launcher::Symmetric>(&start); }
};

// Who this process is in the job, for what depends on that.
struct Position {
  const Assignment* agent = nullptr;  // of an agent; else null
  bool from_here = false;             // this process starts the nodes
  bool elsewhere = false;             // and they are other machines: what this one has says nothing about theirs
  bool alone = false;                 // a job of this node alone
  int simulated = 1;                  // nodes that share this machine, and have workers

  int nodes_here() const { return agent != nullptr ? simulated : 1; }
};

struct Workers {
  int count = 1;
  bool given = false;  // as a number
};

struct Program {
  job::Command command;
  std::string torch_version;
  bool old_torch = false;             // older than 1.13
  std::optional<std::string> script;  // for the agents
};

// words.cpp: torchrun's reading of HOST[:PORT].
struct Endpoint {
  std::string host;
  int port = -1;  // -1: none was given
};
Result<Endpoint> parse_endpoint(std::string_view text);
// Of --master-addr and the like.
Result<std::string> host_of(const job::Asked<std::string>& address);
// A program and its arguments, as rsync reads its -e: blanks separate, quotes of both kinds hold together, a doubled
// quote inside of such quotes stands for itself. At least one word.
Result<std::vector<std::string>> split_command(std::string_view text);

// nodes.cpp. `settled`: takes what the surroundings say.
Result<Nodes> plan_nodes(Settled& settled, const Known& known, Notes& notes);
Nodes member_nodes(const job::Request& request, const Assignment& agent);
Result<void> share_out_processes(const job::Request& request, launcher::FanOut& spec);
void plan_membership(const job::Request& request, bool is_static, rendezvous::MembershipOptions& options);
int simulated_nodes(const job::Request& request);

// allocation.cpp: no nodes are named.
Result<Nodes> plan_here(Settled& settled, const Known& known, Notes& notes);
void note_strangers(const std::vector<cluster::Host>& hosts, const Known& known, Notes& notes);
std::string count_of(size_t count);
std::string were_asked(int count);
std::string has_nodes(const cluster::Surroundings& here, size_t count);

// step.cpp: a task of a scheduler's step.
Result<void> settle_step(Settled& settled, const Known& known, Notes& notes);
Result<void> settle_small_step(const Settled& settled, const Known& known, Notes& notes);
std::string derived_name(const Settled& settled);

// fan_out.cpp: nodes that are started from here.
struct Started {
  std::vector<cluster::Host> hosts;
  job::NodeRange nodes;
  const cluster::Adapter* adapter = nullptr;
};
Result<void> check_hosts_in_front(const job::Request& request, const Known& known);
Error with_hint_of_hosts(const job::Request& request, Error missing);
Result<Nodes> plan_named_hosts(const Settled& settled, const Known& known, Notes& notes);
Result<Nodes> plan_fan_out(const Settled& settled, Started started, const Known& known, Notes& notes);

// symmetric.cpp: this node, alone or with others that each run their own muster.
Result<Nodes> plan_own_node(const Settled& settled, const Known& known, Notes& notes);
Error empty_id(const job::Request& request);

// token.cpp: how such nodes know each other.
Result<void> plan_token(const Settled& settled, Nodes& nodes, const Known& known, Notes& notes);
Result<std::string> read_token_file(const job::Request& request, const Known& known);

// rendezvous.cpp
Result<Meeting> plan_meeting(const Settled& settled, const Known& known, Notes& notes);
job::StoreHost store_host(const job::Request& request, bool old_torch);

// environment.cpp
Result<environment::Setup> read_set_up(const job::Request& request, const Known& known, Notes& notes);
Result<void> check_devices(const environment::Setup& setup, const std::string& host, const Known& known);
Result<Environment> chosen_devices(const launcher::FanOut& spec, const Known& known, Notes& notes);
Result<std::string> plan_record(const job::Request& request, const Position& position, Nodes& nodes,
                                const Known& known);
Environment worker_environment(const job::Request& request, const Position& position, int workers, const Known& known,
                               Notes& notes);

// container.cpp
Result<container::Spec> plan_container(const job::Request& request, const Position& position, const Known& known,
                                       Notes& notes);
Result<MakeContainer> container_to_make(const job::Request& request, const container::Spec& spec,
                                        const std::string& host, const Position& position, const Environment& set,
                                        const Known& known);

// workers.cpp
process::GpuCount gpus_here(const Position& position, const Known& known);
Result<Workers> plan_workers(const Settled& settled, const Position& position, const Known& known, Notes& notes);

// program.cpp; `inside`: the container that the workers run in.
Result<Program> plan_program(const job::Request& request, const Position& position, const container::Prepared* inside,
                             const std::string& host, const Known& known);
bool script_on_stdin(const job::Request& request);

// streams.cpp
Result<job::OutputSpec> plan_output(const job::Request& request, const Position& position, int workers, Notes& notes);
Result<job::StdinSpec> plan_stdin(const job::Request& request, const Position& position, int workers);

// decisions.cpp
void say_decisions(const job::Request& request, const job::JobSpec& job, const Known& known, Notes& notes);

}  // namespace muster::plan
