#include "muster/accelerate/translate.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/accelerate/checks.h"
#include "muster/accelerate/worker_variables.h"
#include "muster/base/strings.h"

namespace muster::accelerate {
namespace {

constexpr int kDefaultPort = 29500;

std::string plural(int count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "es");
}

template <typename T>
void ask(job::Asked<T>& field, T value) {
  field.value = std::move(value);
  field.origin = job::Origin::kOption;
}

class Translator {
 public:
  Translator(const Settings& settings, const Machine& machine, job::Request& request)
      : settings_(settings), machine_(machine), request_(request) {}

  Result<Launch> translate() {
    MUSTER_TRY(launch_.notes, check(settings_, machine_.agent));
    if (auto total = settings_.integer("num_processes")) total_ = std::max(1, static_cast<int>(*total));
    find_machines();
    choose_way();
    MUSTER_TRY_VOID(place_processes());
    if (!machine_.agent) {
      MUSTER_TRY_VOID(plan_machines());
      MUSTER_TRY_VOID(plan_options());
      request_.accelerate = settings_.all();
    }
    MUSTER_TRY(request_.worker_variables, worker_variables(settings_, way_, here_, machine_));
    return std::move(launch_);
  }

 private:
  bool on(std::string_view flag) const { return settings_.flag(flag); }
  void note(std::string text) { launch_.notes.push_back(std::move(text)); }

  void find_machines() {
    for (std::string_view flag : {"mpirun_hostfile", "deepspeed_hostfile"}) {
      auto file = settings_.get(flag);
      if (!file || machine_.agent) continue;
      ask(request_.hostfile, *file);
      request_.hostfile.option_name = flag;
      if (flag == "mpirun_hostfile")
        note(fmt::format("the hosts of {} are started from here; no MPI is involved", *file));
    }
    from_here_ = request_.names_nodes();
    const auto given = settings_.integer("num_machines");
    // A config file that nobody edited says 1.
    bool said = given && (settings_.given("num_machines") || *given > 1);
    if (said) machines_ = static_cast<int>(*given);
    if (!said && !from_here_ && machine_.machines) {
      machines_ = *machine_.machines;
      if (total_ && *total_ < machines_) {
        machines_ = 1;  // too few for all: this one has room for them
        said = true;
      } else if (machines_ > 1) {
        note(fmt::format("{} machines, as {} says", machines_, machine_.scheduler));
      }
    }
    machines_said_ = said;
    if (settings_.given("machine_rank")) {
      rank_ = static_cast<int>(*settings_.integer("machine_rank"));
    } else if (machine_.rank) {
      rank_ = *machine_.rank;
      derived_ = true;
    } else if (auto rank = settings_.integer("machine_rank")) {
      rank_ = static_cast<int>(*rank);
    }
  }

  bool several_machines() const { return machines_ > 1 || from_here_ || machine_.agent; }

  int listed_gpus() const {
    const std::string ids = settings_.get("gpu_ids").value_or("all");
    return ids == "all" ? machine_.gpus : static_cast<int>(split(ids, ',').size());
  }

  void choose_way() {
    const bool sharded = (on("use_fsdp") || on("use_megatron_lm") || on("use_deepspeed")) && !on("cpu");
    const bool asked = (on("multi_gpu") && !on("cpu")) || sharded;
    const bool cpu = on("cpu") || on("use_cpu");
    const bool several = total_ ? *total_ > 1 : !cpu && listed_gpus() > 1;
    if (on("use_deepspeed") && !on("cpu")) {
      way_ = Way::kDeepspeed;
    } else if (asked && !on("use_cpu")) {
      way_ = Way::kRanked;
    } else if (!asked && !several && !several_machines()) {
      way_ = Way::kPlain;
    } else {
      way_ = cpu || machine_.gpus == 0 ? Way::kCpu : Way::kRanked;
    }
    request_.ranked = way_ != Way::kPlain;
    say_better(asked, cpu);
  }

  // Where accelerate would have started less than was asked for.
  void say_better(bool asked, bool cpu) {
    const std::string total = total_ ? plural(*total_, "process") : "several processes";
    if (asked && machine_.gpus == 0 && !on("use_cpu") && !from_here_ && !inherits("ACCELERATE_USE_CPU"))
      note(
          "no GPU is seen here: on the CPU every process of --multi_gpu takes itself for the only one; use --cpu for "
          "that");
    if (asked || way_ == Way::kPlain || from_here_) return;
    if (way_ == Way::kCpu) {
      note(fmt::format("{}{}: as many ranks on the CPU (accelerate starts one process a machine, without a rank)",
                       total, cpu ? "" : " and no GPU here"));
    } else if (machine_.gpus == 1) {
      note(fmt::format(
          "{} and one GPU a machine: as many ranks (accelerate starts one process a machine, without a rank)", total));
    }
  }

  bool inherits(std::string_view name) const { return machine_.environment.has(name); }

  // How many run here.
  Result<void> place_processes() {
    request_.processes = total_;
    if (way_ == Way::kPlain) {
      here_ = 1;
    } else if (machine_.workers) {
      here_ = *machine_.workers;
    } else if (!total_) {
      here_ = way_ == Way::kCpu ? 1 : std::max(1, listed_gpus());
    } else if (!several_machines()) {
      here_ = *total_;
    } else {
      MUSTER_TRY_VOID(divide());
    }
    const std::string ids = settings_.get("gpu_ids").value_or("all");
    const bool known = total_ || way_ == Way::kPlain || way_ == Way::kCpu || ids != "all";
    if (!total_ && ids != "all" && way_ == Way::kRanked && here_ < machine_.gpus && !machine_.agent)
      note(fmt::format("--gpu_ids {}: {} a machine (accelerate starts one for each of {} GPUs)", ids,
                       plural(here_, "process"), machine_.gpus));
    request_.nproc = job::Request().nproc;
    if (known && here_ > 0) ask(request_.nproc, {job::Countable::kNumber, here_});
    if (way_ == Way::kRanked && !from_here_ && machine_.gpus > 0 && here_ > listed_gpus())
      note(fmt::format("{} here share {} GPU{}, which NCCL refuses", plural(here_, "process"), listed_gpus(),
                       listed_gpus() == 1 ? "" : "s"));
    return {};
  }

  // Of a job on several machines; where they are started from here the launcher does it, which knows them all.
  Result<void> divide() {
    if (from_here_ && !machines_said_) return {};
    if (*total_ < machines_)
      return Error{ErrorKind::kUsage,
                   fmt::format("--num_processes {} is the number of all processes, and there are {} machines", *total_,
                               machines_),
                   fmt::format("write {} or more", machines_)};
    const bool uneven = *total_ % machines_ != 0;
    // What a batch script writes for $SLURM_NODEID is its own 0, on every node: the scheduler knows better.
    const std::optional<int> rank = machine_.rank ? machine_.rank : rank_;
    here_ = share_of(*total_, machines_, rank.value_or(0));
    launch_.uneven = uneven && !rank;
    if (uneven && !machine_.agent)
      note(fmt::format("{} on {} machines: {} on the first{}, {} on the other{} (accelerate loses the remainder)",
                       plural(*total_, "process"), machines_, *total_ / machines_ + 1,
                       *total_ % machines_ > 1 ? fmt::format(" {}", *total_ % machines_) : "", *total_ / machines_,
                       machines_ - *total_ % machines_ > 1 ? "s" : ""));
    return {};
  }

  Result<void> plan_machines() {
    if (machines_said_) ask(request_.nnodes, {machines_, machines_});
    if (from_here_) return {};
    if (machines_ > 1) return plan_meeting();
    plan_port();
    return {};
  }

  Result<void> plan_meeting() {
    const bool c10d = settings_.get("rdzv_backend") != "static";
    auto ip = settings_.get("main_process_ip");
    if (ip && trim(*ip).empty()) ip.reset();
    const int port = static_cast<int>(settings_.integer("main_process_port").value_or(0));
    if (!ip && !machine_.machines)
      return Error{ErrorKind::kUsage, fmt::format("no rendezvous address for {} machines", machines_),
                   "give --main_process_ip HOST on every one"};
    if (settings_.given("main_process_port") && port == 0)
      note("--main_process_port 0: machines cannot guess each other's port; the default is used");
    if (c10d && on("same_network") && ip)
      note(fmt::format("c10d and --same_network: all meet at {} (accelerate drops the address)", *ip));
    const bool numbered = derived_ && !c10d;
    if (machines_said_ && machine_.machines && (!ip || numbered))
      note(fmt::format("{}{} machines{}, as {} says", numbered ? fmt::format("number {} of ", *rank_) : "", machines_,
                       ip ? "" : ", which meet on the first", machine_.scheduler));
    // "$SLURM_NODEID" in a batch script is its own 0, on every node.
    if (c10d && settings_.given("machine_rank") && machine_.rank && machine_.rank != rank_)
      note(fmt::format("--machine_rank {} is ignored: {} says that this is machine {}, and c10d numbers them itself",
                       *rank_, machine_.scheduler, *machine_.rank));
    if (ip && c10d) {
      const bool v6 = ip->find(':') != std::string::npos && !ip->starts_with('[');
      const std::string host = v6 ? fmt::format("[{}]", *ip) : *ip;
      ask(request_.endpoint, port > 0 ? fmt::format("{}:{}", host, port) : host);
    } else if (ip) {
      ask(request_.master_addr, *ip);
      if (port > 0) ask(request_.master_port, std::optional(port));
    }
    if (!c10d && rank_ && !derived_) ask(request_.node_rank, *rank_);
    return {};
  }

  void plan_port() {
    const auto given = settings_.integer("main_process_port");
    if (way_ == Way::kPlain) return;
    if (!request_.rdzv_id.given()) ask(request_.rdzv_id, std::string("none"));
    const int port = static_cast<int>(given.value_or(kDefaultPort));
    if (port == 0 || settings_.get("rdzv_backend") != "static") return;
    request_.master_port.fill(port);
    if (given) request_.master_port.origin = job::Origin::kOption;
    request_.port_may_change = true;
  }

  Result<void> plan_options() {
    const std::string backend = *settings_.get("rdzv_backend");
    if (backend != "static" && way_ != Way::kPlain && !from_here_) {
      if (backend != "c10d")
        return Error{ErrorKind::kUsage, fmt::format("--rdzv_backend: '{}' is not supported", backend),
                     "use c10d, which needs no server of its own"};
      ask(request_.backend, job::Backend::kC10d);
    }
    if (on("quiet")) request_.log_threshold = LogLevel::kWarning;
    // What the script looks like does not matter: Python runs it.
    request_.module = on("module");
    request_.no_python = on("no_python");
    request_.run_path = !request_.module && !request_.no_python;
    return {};
  }

  const Settings& settings_;
  const Machine& machine_;
  job::Request& request_;
  Launch launch_;
  std::optional<int> total_, rank_;
  int machines_ = 1;
  int here_ = 0;  // 0: the launcher divides
  bool machines_said_ = false, from_here_ = false, derived_ = false;
  Way way_ = Way::kPlain;
};

}  // namespace

Result<Launch> translate(const Settings& settings, const Machine& machine, job::Request& request) {
  return Translator(settings, machine, request).translate();
}

Result<void> complete(job::Request& request, const Machine& machine) {
  MUSTER_TRY(const Settings settings, Settings::of(request.accelerate));
  MUSTER_TRY_VOID(Translator(settings, machine, request).translate());
  return {};
}

std::vector<std::string> torchrun_words(const Settings& settings) {
  std::vector<std::string> words;
  for (std::string_view flag : {"rdzv_conf", "max_restarts", "monitor_interval", "tee", "log_dir", "role"})
    if (auto value = settings.get(flag); value && settings.source(flag) != Source::kDefault)
      words.push_back(fmt::format("--{}={}", flag, *value));
  return words;
}

int share_of(int processes, int machines, int rank) {
  return processes / machines + (rank < processes % machines ? 1 : 0);
}

std::string in_its_words(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"--nnodes", "--num_machines"},         {"--nproc-per-node", "--num_processes"},
      {"--node-rank", "--machine_rank"},      {"--rdzv-endpoint", "--main_process_ip"},
      {"--master-addr", "--main_process_ip"}, {"--master-port", "--main_process_port"},
      {"--rdzv-backend", "--rdzv_backend"},   {"--rdzv-conf", "--rdzv_conf"},
      {"--max-restarts", "--max_restarts"},   {"--log-dir", "--log_dir"},
      {"--no-python", "--no_python"}};
  for (const auto& [ours, theirs] : kNames)
    for (size_t at = text.find(ours); at != std::string::npos; at = text.find(ours, at + theirs.size()))
      text.replace(at, ours.size(), theirs);
  return text;
}

}  // namespace muster::accelerate
