#include "muster/accelerate/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "muster/base/strings.h"

namespace muster::accelerate {
namespace {

// What a file may have, in the words of accelerate's ClusterConfig.
constexpr std::string_view kScalarKeys[] = {"compute_environment",
                                            "distributed_type",
                                            "mixed_precision",
                                            "use_cpu",
                                            "debug",
                                            "num_processes",
                                            "machine_rank",
                                            "num_machines",
                                            "gpu_ids",
                                            "main_process_ip",
                                            "main_process_port",
                                            "rdzv_backend",
                                            "same_network",
                                            "main_training_function",
                                            "enable_cpu_affinity",
                                            "downcast_bf16",
                                            "tpu_name",
                                            "tpu_zone",
                                            "tpu_use_cluster",
                                            "tpu_use_sudo",
                                            "tpu_vm",
                                            "tpu_env",
                                            "command_file",
                                            "commands",
                                            "fp16",
                                            "dynamo_backend"};
constexpr std::string_view kMapKeys[] = {"dynamo_config", "fp8_config",         "mpirun_config",     "deepspeed_config",
                                         "fsdp_config",   "megatron_lm_config", "parallelism_config"};
constexpr std::string_view kTypes[] = {"NO",         "MULTI_CPU",  "MULTI_GPU", "MULTI_NPU",  "MULTI_MLU",
                                       "MULTI_SDAA", "MULTI_MUSA", "MULTI_XPU", "MULTI_HPU",  "MULTI_NEURON",
                                       "DEEPSPEED",  "FSDP",       "XLA",       "MEGATRON_LM"};

template <typename List>
bool contains(const List& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

class Merge {
 public:
  Merge(const Value& config, const std::string& name, Settings& settings, std::vector<std::string>& notes)
      : config_(config), name_(name), settings_(settings), notes_(notes) {}

  Result<void> apply() {
    MUSTER_TRY_VOID(check_keys());
    const Value* environment = find("compute_environment");
    if (environment != nullptr && environment->text != "LOCAL_MACHINE")
      return Error{ErrorKind::kUsage,
                   fmt::format("'{}' is for {}, where muster does not start jobs", name_, environment->text),
                   "use accelerate itself for that"};
    MUSTER_TRY_VOID(read_type());
    MUSTER_TRY_VOID(read_maps());
    read_scalars();
    return check_values();
  }

 private:
  const Value* find(std::string_view key) const {
    const Value* found = nullptr;  // the last one counts
    for (const auto& [name, value] : config_.entries)
      if (name == key && value.kind != Value::Kind::kNone) found = &value;
    return found;
  }

  Error about(std::string_view text, std::string hint) const {
    return {ErrorKind::kUsage, fmt::format("'{}': {}", name_, text), std::move(hint)};
  }

  // All of them at once, in accelerate's order.
  Result<void> check_unknown_keys() const {
    std::set<std::string> unknown;
    for (const auto& [key, value] : config_.entries)
      if (!contains(kScalarKeys, key) && !contains(kMapKeys, key)) unknown.insert(key);
    if (unknown.empty()) return {};
    std::vector<std::string> names, meant;
    for (const std::string& key : unknown) {
      names.push_back(fmt::format("'{}'", key));
      for (std::string_view known : kScalarKeys)
        if (edit_distance(key, known) < 3) meant.emplace_back(known);
    }
    const std::string what =
        names.size() == 1 ? fmt::format("accelerate 1.15 has no key {}", names[0])
                          : fmt::format("unknown keys, which accelerate 1.15 does not have: {}", join(names, ", "));
    return about(what, !meant.empty()      ? fmt::format("did you mean {}?", join(meant, ", "))
                       : names.size() == 1 ? "remove it"
                                           : "remove them");
  }

  Result<void> check_keys() const {
    MUSTER_TRY_VOID(check_unknown_keys());
    for (const auto& [key, value] : config_.entries) {
      if (contains(kMapKeys, key) && value.kind != Value::Kind::kMap && value.kind != Value::Kind::kNone)
        return about(fmt::format("{} is not a map", key), "write its settings below it, indented");
    }
    return {};
  }

  Result<void> read_type() {
    const Value* type = find("distributed_type");
    if (type == nullptr) return about("there is no distributed_type", "write distributed_type: 'NO', MULTI_GPU, …");
    // A plain NO is YAML's false.
    std::string text = type->kind == Value::Kind::kBool && type->text == "False" ? "NO" : type->text;
    if (!contains(kTypes, text))
      return about(fmt::format("there is no distributed_type '{}'", text),
                   "write 'NO', MULTI_CPU, MULTI_GPU, FSDP, DEEPSPEED or MEGATRON_LM");
    settings_.set("distributed_type", text, Source::kFile);
    for (std::string_view flag : {"multi_gpu", "tpu", "tpu_cluster", "use_deepspeed", "use_fsdp", "use_megatron_lm"})
      if (settings_.given(flag)) return {};
    if (text.starts_with("MULTI_") && text != "MULTI_CPU") turn_on("multi_gpu");
    if (text == "DEEPSPEED") turn_on("use_deepspeed");
    if (text == "FSDP") turn_on("use_fsdp");
    if (text == "MEGATRON_LM") turn_on("use_megatron_lm");
    if (text == "XLA") turn_on("tpu");
    if (const Value* parallelism = find("parallelism_config"); parallelism != nullptr && !parallelism->entries.empty())
      turn_on("use_parallelism_config");
    return {};
  }

  void turn_on(std::string_view flag) { settings_.set(flag, "True", Source::kFile); }

  // The entries of a map are options; what is no option is nobody's concern, as with accelerate.
  Result<void> read_maps() {
    for (const auto& [map, value] : config_.entries) {
      if (value.kind != Value::Kind::kMap) continue;
      for (const auto& [key, entry] : value.entries) MUSTER_TRY_VOID(read_entry(prefixed(map, key), entry));
    }
    if (const Value* old = find("dynamo_backend");
        old != nullptr && !settings_.given("dynamo_backend") && old->text != "NO")
      settings_.set("dynamo_backend", old->text, Source::kFile);
    std::vector<std::string> fields;
    if (const Value* deepspeed = find("deepspeed_config"))
      for (const auto& [key, entry] : deepspeed->entries) fields.push_back(key);
    if (!settings_.given("mixed_precision") && find("mixed_precision") != nullptr)
      fields.emplace_back("mixed_precision");
    settings_.set("deepspeed_fields", lower_case(join(fields, ",")), Source::kFile);
    return {};
  }

  static std::string prefixed(std::string_view map, const std::string& key) {
    if (map == "fsdp_config" && !key.starts_with("fsdp")) return "fsdp_" + key;
    if (map == "fp8_config" && !key.starts_with("fp8")) return "fp8_" + key;
    if (map == "dynamo_config" && !key.starts_with("dynamo_")) return "dynamo_" + key;
    return key;
  }

  Result<void> read_entry(const std::string& key, const Value& value) {
    const Option* option = key.find('-') == std::string::npos ? find_option(key) : nullptr;
    if (option == nullptr || settings_.given(option->name) || option->name == "distributed_type") return {};
    if (value.kind == Value::Kind::kNone) {
      settings_.set(key, option->kind == Kind::kFlag ? std::optional<std::string>("False") : std::nullopt,
                    Source::kFile);
      return {};
    }
    if (value.kind == Value::Kind::kMap)
      return about(fmt::format("{} has no map as its value", key), "give it one value");
    std::string text = value.text;
    if (option->kind == Kind::kThree && value.kind == Value::Kind::kList && value.items.size() == 3)
      text = fmt::format("{},{},{}", value.items[0].text, value.items[1].text, value.items[2].text);
    if (option->kind == Kind::kInteger && !parse_integer(*option, text))
      return about(fmt::format("{}: '{}' is not a number", key, text), "write a whole number");
    settings_.set(key, text, Source::kFile);
    return {};
  }

  void fill(std::string_view key) {
    const Value* value = find(key);
    if (value != nullptr && settings_.source(key) == Source::kDefault) settings_.set(key, value->text, Source::kFile);
  }

  void read_scalars() {
    for (std::string_view key : {"num_processes", "machine_rank", "num_machines", "gpu_ids", "main_process_ip",
                                 "main_process_port", "mixed_precision"})
      fill(key);
    if (!settings_.get("num_processes") && settings_.get("distributed_type") == "NO")
      settings_.set("num_processes", "1", Source::kFile);
    if (!settings_.get("num_machines")) settings_.set("num_machines", "1", Source::kFile);
    if (settings_.get("mixed_precision") == "False") settings_.set("mixed_precision", "no", Source::kFile);
    const Value* fp16 = find("fp16");
    if (!settings_.get("mixed_precision") && fp16 != nullptr && fp16->text == "True")
      settings_.set("mixed_precision", "fp16", Source::kFile);
    const Value* use_cpu = find("use_cpu");
    if (use_cpu != nullptr && use_cpu->text == "True") turn_on("use_cpu");
    const Value* debug = find("debug");
    if (debug != nullptr && debug->text == "True") turn_on("debug");
    // accelerate reads neither, though it writes them.
    if (const Value* backend = find("rdzv_backend");
        backend != nullptr && !settings_.given("rdzv_backend") && backend->text != "static") {
      settings_.set("rdzv_backend", backend->text, Source::kFile);
      notes_.push_back(
          fmt::format("rdzv_backend: {} of the config file is followed (accelerate reads past it)", backend->text));
    }
    if (const Value* affinity = find("enable_cpu_affinity");
        affinity != nullptr && affinity->text == "True" && !settings_.given("enable_cpu_affinity")) {
      turn_on("enable_cpu_affinity");
      notes_.emplace_back("enable_cpu_affinity of the config file is followed (accelerate reads past it)");
    }
  }

  Result<void> check_values() const {
    for (std::string_view key : {"num_processes", "machine_rank", "num_machines", "main_process_port"})
      if (settings_.get(key) && !settings_.integer(key))
        return about(fmt::format("{}: '{}' is not a number", key, *settings_.get(key)), "write a whole number");
    if (settings_.integer("num_processes").value_or(-1) == -1)
      return about("the number of processes is not given",
                   "give --num_processes, or write num_processes into the file");
    const std::string gpus = settings_.get("gpu_ids").value_or("all");
    if (settings_.flag("multi_gpu") && gpus != "all" && gpus.find(',') == std::string::npos &&
        settings_.integer("num_machines").value_or(1) <= 1)
      return about(fmt::format("gpu_ids names one GPU ({}), and several are to be used", gpus),
                   "name two or more, or 'all'");
    return {};
  }

  const Value& config_;
  const std::string& name_;
  Settings& settings_;
  std::vector<std::string>& notes_;
};

}  // namespace

std::string default_config_file(const GetEnv& getenv) {
  const std::string home = getenv("HOME").value_or("");
  std::string cache = getenv("HF_HOME").value_or("");
  if (!getenv("HF_HOME")) cache = getenv("XDG_CACHE_HOME").value_or("~/.cache") + "/huggingface";
  if (cache == "~" || cache.starts_with("~/")) cache = home + cache.substr(1);
  return cache + "/accelerate/default_config.yaml";
}

Result<void> apply_config(const Value& config, const std::string& name, Settings& settings,
                          std::vector<std::string>& notes) {
  return Merge(config, name, settings, notes).apply();
}

}  // namespace muster::accelerate
