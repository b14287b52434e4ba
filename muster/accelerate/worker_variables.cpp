#include "muster/accelerate/worker_variables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "muster/base/strings.h"

namespace muster::accelerate {
namespace {

constexpr std::string_view kMoreDynamoBackends[] = {"TORCHXLA_TRACE_ONCE", "HPU_BACKEND", "NEURON"};

class Maker {
 public:
  Maker(const Settings& settings, Way way, int processes_here, const Machine& machine)
      : settings_(settings), way_(way), processes_here_(processes_here), machine_(machine) {}

  Result<Environment> make() {
    if (way_ == Way::kPlain) set("ACCELERATE_USE_CPU", wants_cpu() ? "True" : "False");
    if (way_ == Way::kCpu) set("ACCELERATE_USE_CPU", "True");
    if (settings_.flag("debug")) set("ACCELERATE_DEBUG_MODE", "true");
    set_devices();
    if (way_ == Way::kCpu || (way_ == Way::kPlain && wants_cpu())) {
      set("KMP_AFFINITY", "granularity=fine,compact,1,0");
      set("KMP_BLOCKTIME", "1");
    }
    MUSTER_TRY_VOID(set_precision());
    if (way_ == Way::kDeepspeed) {
      set_deepspeed();
    } else {
      MUSTER_TRY_VOID(set_dynamo());
      MUSTER_TRY_VOID(set_sharding());
      set("OMP_NUM_THREADS", threads());
    }
    if (settings_.flag("enable_cpu_affinity")) set("ACCELERATE_CPU_AFFINITY", "1");
    if (settings_.flag("use_parallelism_config") && way_ != Way::kPlain) set_parallelism();
    if (!machine_.peer_access && way_ != Way::kPlain)
      for (std::string_view name : {"NCCL_P2P_DISABLE", "NCCL_IB_DISABLE"})
        if (!machine_.environment.get(name)) set(name, "1");
    if (way_ != Way::kPlain) copy_upper_case();
    return std::move(variables_);
  }

 private:
  bool wants_cpu() const { return settings_.flag("cpu") || settings_.flag("use_cpu"); }

  void set(std::string_view name, std::string value) { variables_.set(name, std::move(value)); }

  void set_devices() {
    const std::string ids = settings_.get("gpu_ids").value_or("all");
    if (ids == "all") return;
    set(machine_.visible_variable.empty() ? "CUDA_VISIBLE_DEVICES" : machine_.visible_variable, ids);
  }

  Result<void> set_precision() {
    const std::string precision = lower_case(settings_.get("mixed_precision").value_or("no"));
    if (precision != "no" && precision != "fp16" && precision != "bf16" && precision != "fp8")
      return Error{ErrorKind::kUsage, fmt::format("there is no mixed_precision '{}'", precision),
                   "use no, fp16, bf16 or fp8"};
    set("ACCELERATE_MIXED_PRECISION", precision);
    if (precision != "fp8") return {};
    set_group(Group::kFp8);
    const std::string three = settings_.get("fp8_override_linear_precision").value_or("");
    auto override = split(three, ',');
    const std::string_view names[] = {"FPROP", "DGRAD", "WGRAD"};
    for (size_t i = 0; i < std::size(names) && i < override.size(); ++i)
      set(fmt::format("ACCELERATE_FP8_OVERRIDE_{}", names[i]), std::string(override[i]));
    return {};
  }

  Result<void> set_dynamo() {
    const std::string backend = upper_case(settings_.get("dynamo_backend").value_or("no"));
    auto choices = split(find_option("dynamo_backend")->choices, '|');
    const bool known = std::find(choices.begin(), choices.end(), lower_case(backend)) != choices.end();
    const bool more = std::find(std::begin(kMoreDynamoBackends), std::end(kMoreDynamoBackends), backend) !=
                      std::end(kMoreDynamoBackends);
    if ((!known && !more) || backend == "TORHCHXLA_TRACE_ONCE")
      return Error{ErrorKind::kUsage, fmt::format("there is no dynamo backend '{}'", backend),
                   "use no, inductor, eager, …"};
    set("ACCELERATE_DYNAMO_BACKEND", backend);
    set_group(Group::kDynamo);
    return {};
  }

  // Every variable of the options of a group, by the rules of the table.
  void set_group(Group group) {
    for (const Option& option : options()) {
      if (option.group != group || option.rule == Rule::kNone) continue;
      auto value = settings_.get(option.name);
      const bool always = option.rule == Rule::kAlways || option.rule == Rule::kLower;
      if (!value && !always) continue;
      std::string text = value.value_or("None");
      if (option.rule == Rule::kLower || option.rule == Rule::kIfSetLower) text = lower_case(text);
      set(option.variable, text);
    }
  }

  Result<void> set_sharding() {
    if (way_ == Way::kPlain || way_ == Way::kCpu) return {};
    if (settings_.flag("use_fsdp")) {
      if (settings_.get("fsdp_sync_module_states") == "False" &&
          settings_.get("fsdp_cpu_ram_efficient_loading") != "False")
        return Error{ErrorKind::kUsage, "fsdp_cpu_ram_efficient_loading needs fsdp_sync_module_states",
                     "set both to true, or both to false"};
      set("ACCELERATE_USE_FSDP", "true");
      set_group(Group::kFsdp);
      if (auto ignored = settings_.get("fsdp_ignored_modules")) set("FSDP_IGNORED_MODULES", *ignored);
    }
    if (settings_.flag("use_megatron_lm")) {
      set("ACCELERATE_USE_MEGATRON_LM", "true");
      set_group(Group::kMegatron);
    }
    return {};
  }

  void set_deepspeed() {
    std::string path = machine_.environment.get("PYTHONPATH").value_or("");
    std::vector<std::string> parts;
    for (std::string_view part : split(path, ':'))
      if (!part.empty()) parts.emplace_back(part);
    parts.push_back(machine_.directory);
    set("PYTHONPATH", join(parts, ":"));
    set("ACCELERATE_CONFIG_DS_FIELDS", settings_.get("deepspeed_fields").value_or(""));
    set("ACCELERATE_USE_DEEPSPEED", "true");
    set_group(Group::kDeepspeed);
    // Set by torchrun then: 1 for several workers.
    if (!machine_.environment.get("OMP_NUM_THREADS") && processes_here_ > 1) set("OMP_NUM_THREADS", "1");
  }

  void set_parallelism() {
    set("ACCELERATE_USE_PARALLELISM_CONFIG", "true");
    set_group(Group::kParallelism);
    auto text = [&](std::string_view name) { return settings_.get(name).value_or("None"); };
    if (settings_.integer("parallelism_config_cp_size").value_or(1) > 1)
      set("PARALLELISM_CONFIG_CP_COMM_STRATEGY", text("parallelism_config_cp_comm_strategy"));
    if (settings_.integer("parallelism_config_sp_size").value_or(1) > 1) {
      set("PARALLELISM_CONFIG_SP_SEQ_LENGTH", text("parallelism_config_sp_seq_length"));
      set("PARALLELISM_CONFIG_SP_SEQ_LENGTH_IS_VARIABLE", text("parallelism_config_sp_seq_length_is_variable"));
      set("PARALLELISM_CONFIG_SP_ATTN_IMPLEMENTATION", text("parallelism_config_sp_attn_implementation"));
    }
  }

  // The flag, else what is inherited, else 1; on the CPU the cores are divided.
  std::string threads() const {
    if (auto given = settings_.get("num_cpu_threads_per_process")) return *given;
    const std::string inherited = machine_.environment.get("OMP_NUM_THREADS").value_or("");
    const auto number = parse_int(trim(inherited));
    // "4,2" and the like are for OpenMP to read.
    if (!inherited.empty() && (!number || *number > 0)) return number ? std::to_string(*number) : inherited;
    const bool from_file = settings_.get("distributed_type").has_value();
    const bool cpu = way_ == Way::kCpu || settings_.flag(from_file ? "use_cpu" : "cpu");
    const bool counted = settings_.integer("num_processes").value_or(0) >= 1;
    if (cpu && (counted || way_ == Way::kCpu)) {
      const int each = machine_.cores / std::max(1, processes_here_);
      if (each > 1) return std::to_string(each);
    }
    return number == 0 ? "0" : "1";
  }

  // accelerate patches torchrun's environment with names in capitals, so that workers have both: HTTP_PROXY of http_proxy.
  void copy_upper_case() {
    Environment all = machine_.environment;
    all.set_all(variables_);
    std::map<std::string, std::string> capitals;  // where several names come to the same, the last one counts
    for (const auto& [name, value] : all) capitals[upper_case(name)] = value;
    for (const auto& [name, value] : capitals)
      if (all.get(name) != value) set(name, value);
  }

  const Settings& settings_;
  const Way way_;
  const int processes_here_;
  const Machine& machine_;
  Environment variables_;
};

}  // namespace

Result<Environment> worker_variables(const Settings& settings, Way way, int processes_here, const Machine& machine) {
  return Maker(settings, way, processes_here, machine).make();
}

}  // namespace muster::accelerate
