#include "muster/accelerate/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "muster/base/strings.h"
#include "muster/process/typed_gpus.h"

namespace muster::accelerate {
namespace {

using K = Kind;
using G = Group;
using R = Rule;
constexpr bool kCommon = true;

constexpr std::string_view kDynamoBackends =
    "no|eager|aot_eager|inductor|aot_ts_nvfuser|nvprims_nvfuser|cudagraphs|ofi|fx2trt|onnxrt|tensorrt|"
    "aot_torchxla_trace_once|torhchxla_trace_once|tvm";  // the typing error is accelerate's

// clang-format off
constexpr Option kOptions[] = {
  {"config_file", 0, K::kText, nullptr, "", G::kProgram, "", R::kNone,
   "Config file with defaults, as `accelerate config` writes it. YAML, or JSON if the name ends in .json. Without: "
   "$HF_HOME/accelerate/default_config.yaml, if it exists and --cpu is not given.", kCommon},
  {"quiet", 'q', K::kFlag, nullptr, "", G::kOutput, "", R::kNone, "Print only warnings, errors and the failure report."},
  {"debug", 0, K::kFlag, nullptr, "", G::kOutput, "", R::kNone, "Workers check the shapes of the tensors that they exchange. Sets ACCELERATE_DEBUG_MODE."},

  {"cpu", 0, K::kFlag, nullptr, "", G::kHardware, "", R::kNone, "Train on the CPU, even if there are GPUs."},
  {"multi_gpu", 0, K::kFlag, nullptr, "", G::kHardware, "", R::kNone,
   "One process per GPU. Not needed: muster starts as many processes as you ask for."},
  {"tpu", 0, K::kFlag, nullptr, "", G::kHardware, "", R::kNone, "Not supported."},
  {"gpu_ids", 0, K::kText, nullptr, "", G::kHardware, "", R::kNone,
   "GPUs to use on each machine, as in 0,2, or all. Sets CUDA_VISIBLE_DEVICES, or the variable of the vendor.", kCommon},
  {"enable_cpu_affinity", 0, K::kFlag, nullptr, "", G::kHardware, "", R::kNone,
   "Workers bind themselves to the cores near their GPU. Sets ACCELERATE_CPU_AFFINITY."},
  {"mixed_precision", 0, K::kText, nullptr, "no|fp16|bf16|fp8", G::kHardware, "", R::kNone, "Precision in which Accelerator() computes.", kCommon},

  {"num_processes", 0, K::kInteger, nullptr, "", G::kProcesses, "", R::kNone,
   "Number of processes on all machines together. Also v100:4, as Slurm may write it. If it does not divide evenly, the "
   "first machines get one more. Without: one per GPU, or one.", kCommon},
  {"num_cpu_threads_per_process", 0, K::kInteger, nullptr, "", G::kProcesses, "", R::kNone,
   "OMP_NUM_THREADS of each process. Without: the value that you have set, else 1; on the CPU, the cores divided among the processes."},
  {"max_restarts", 0, K::kInteger, "0", "", G::kProcesses, "", R::kNone, "How often to start all processes again after a failure."},
  {"monitor_interval", 0, K::kNumber, "0.1", "", G::kProcesses, "", R::kNone, "Accepted for compatibility. muster sees at once when a worker exits, and does not poll."},

  {"num_machines", 0, K::kInteger, nullptr, "", G::kMachines, "", R::kNone, "Number of machines. Under a scheduler: all of the allocation or step.", kCommon},
  {"machine_rank", 0, K::kInteger, nullptr, "", G::kMachines, "", R::kNone, "Number of this machine, from 0. Under Slurm and PBS muster finds it itself.", kCommon},
  {"main_process_ip", 0, K::kText, nullptr, "", G::kMachines, "", R::kNone, "Name or address of machine 0, where the machines meet. Under Slurm and PBS muster finds it itself.", kCommon},
  {"main_process_port", 0, K::kInteger, nullptr, "", G::kMachines, "", R::kNone, "Port on machine 0. Without, or if a job on one machine finds it taken: 29500, or a free port. 0: any free port.", kCommon},
  {"rdzv_backend", 0, K::kText, "static", "", G::kMachines, "", R::kNone, "How the machines get their ranks. static: from --machine_rank; c10d: in the order in which they come."},
  {"rdzv_conf", 0, K::kText, "", "", G::kMachines, "", R::kNone, "More rendezvous settings, as in muster run --rdzv-conf."},
  {"same_network", 0, K::kFlag, nullptr, "", G::kMachines, "", R::kNone, "Accepted for compatibility. muster uses the given address in either case."},
  {"mpirun_hostfile", 0, K::kText, nullptr, "", G::kMachines, "", R::kNone,
   "Run on the hosts in this file, over ssh, as muster run --hostfile does. MPI is not used."},

  {"module", 'm', K::kFlag, nullptr, "", G::kProgram, "", R::kNone, "PROGRAM is a Python module."},
  {"no_python", 0, K::kFlag, nullptr, "", G::kProgram, "", R::kNone, "Execute PROGRAM itself."},
  {"tee", 't', K::kText, "0", "", G::kOutput, "", R::kNone, "Streams that go to log files and to the console. 0: none, 1: stdout, 2: stderr, 3: both."},
  {"log_dir", 0, K::kText, nullptr, "", G::kOutput, "", R::kNone, "Directory for log files."},
  {"role", 0, K::kText, "default", "", G::kOutput, "", R::kNone, "Role of the workers. They get it as ROLE_NAME."},

  {"dynamo_backend", 0, K::kText, nullptr, kDynamoBackends, G::kDynamo, "", R::kNone, "Compile the model with this backend of torch.compile."},
  {"dynamo_mode", 0, K::kText, "default", "default|reduce-overhead|max-autotune", G::kDynamo, "ACCELERATE_DYNAMO_MODE", R::kAlways, "Mode of torch.compile."},
  {"dynamo_use_fullgraph", 0, K::kFlag, nullptr, "", G::kDynamo, "ACCELERATE_DYNAMO_USE_FULLGRAPH", R::kAlways, "Compile to a single graph, or fail."},
  {"dynamo_use_dynamic", 0, K::kFlag, nullptr, "", G::kDynamo, "ACCELERATE_DYNAMO_USE_DYNAMIC", R::kAlways, "Trace with dynamic shapes."},
  {"dynamo_use_regional_compilation", 0, K::kFlag, nullptr, "", G::kDynamo, "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION", R::kAlways, "Compile repeated blocks once."},

  {"fp8_backend", 0, K::kText, nullptr, "ao|te|msamp", G::kFp8, "ACCELERATE_FP8_BACKEND", R::kIfSet, "Library for --mixed_precision fp8."},
  {"fp8_use_autocast_during_eval", 0, K::kFlag, nullptr, "", G::kFp8, "ACCELERATE_FP8_USE_AUTOCAST_DURING_EVAL", R::kAlways, "Use fp8 in evaluation too (te)."},
  {"fp8_margin", 0, K::kInteger, "0", "", G::kFp8, "ACCELERATE_FP8_MARGIN", R::kAlways, "Margin of the scaling (te)."},
  {"fp8_interval", 0, K::kInteger, "1", "", G::kFp8, "ACCELERATE_FP8_INTERVAL", R::kAlways, "How often the scaling is computed (te)."},
  {"fp8_format", 0, K::kText, "HYBRID", "HYBRID|E4M3|E5M2", G::kFp8, "ACCELERATE_FP8_FORMAT", R::kAlways, "Format (te)."},
  {"fp8_amax_history_len", 0, K::kInteger, "1024", "", G::kFp8, "ACCELERATE_FP8_AMAX_HISTORY_LEN", R::kAlways, "Length of the history (te)."},
  {"fp8_amax_compute_algo", 0, K::kText, "most_recent", "max|most_recent", G::kFp8, "ACCELERATE_FP8_AMAX_COMPUTE_ALGO", R::kAlways, "How the scaling is computed (te)."},
  {"fp8_override_linear_precision", 0, K::kThree, "False,False,False", "", G::kFp8, "", R::kNone, "Higher precision for fprop, dgrad, wgrad, as in false,true,false (te)."},
  {"fp8_opt_level", 0, K::kText, "O2", "O1|O2", G::kFp8, "ACCELERATE_FP8_OPT_LEVEL", R::kAlways, "Level of collectives in fp8 (msamp)."},
  {"fp8_enable_fsdp_float8_all_gather", 0, K::kYesNo, "1", "", G::kFp8, "ACCELERATE_FP8_ENABLE_FSDP_FLOAT8_ALL_GATHER", R::kAlways, "All-gather in float8 (ao)."},
  {"fp8_pad_inner_dim", 0, K::kYesNo, "1", "", G::kFp8, "ACCELERATE_FP8_PAD_INNER_DIM", R::kAlways, "Pad inner dimensions (ao)."},

  {"use_fsdp", 0, K::kFlag, nullptr, "", G::kFsdp, "", R::kNone, "Use fully sharded data parallel.", kCommon},
  {"fsdp_version", 0, K::kText, "1", "1|2", G::kFsdp, "FSDP_VERSION", R::kAlways, "Version of FSDP."},
  {"fsdp_sharding_strategy", 0, K::kText, "FULL_SHARD", "", G::kFsdp, "FSDP_SHARDING_STRATEGY", R::kAlways, "Sharding strategy (version 1)."},
  {"fsdp_reshard_after_forward", 0, K::kText, "true", "", G::kFsdp, "FSDP_RESHARD_AFTER_FORWARD", R::kLower, "Reshard after the forward pass."},
  {"fsdp_offload_params", 0, K::kText, "false", "", G::kFsdp, "FSDP_OFFLOAD_PARAMS", R::kLower, "Keep parameters and gradients in host memory."},
  {"fsdp_min_num_params", 0, K::kInteger, "100000000", "", G::kFsdp, "FSDP_MIN_NUM_PARAMS", R::kAlways, "Smallest number of parameters of a wrapped module."},
  {"fsdp_auto_wrap_policy", 0, K::kText, nullptr, "", G::kFsdp, "FSDP_AUTO_WRAP_POLICY", R::kIfSet, "How modules are chosen for wrapping."},
  {"fsdp_transformer_layer_cls_to_wrap", 0, K::kText, nullptr, "", G::kFsdp, "FSDP_TRANSFORMER_CLS_TO_WRAP", R::kIfSet, "Classes to wrap, comma-separated."},
  {"fsdp_backward_prefetch", 0, K::kText, nullptr, "", G::kFsdp, "FSDP_BACKWARD_PREFETCH", R::kIfSet, "When to fetch the next parameters in the backward pass."},
  {"fsdp_state_dict_type", 0, K::kText, nullptr, "", G::kFsdp, "FSDP_STATE_DICT_TYPE", R::kIfSet, "Form of checkpoints."},
  {"fsdp_forward_prefetch", 0, K::kText, "false", "", G::kFsdp, "FSDP_FORWARD_PREFETCH", R::kLower, "Fetch the next parameters in the forward pass."},
  {"fsdp_use_orig_params", 0, K::kText, "true", "", G::kFsdp, "FSDP_USE_ORIG_PARAMS", R::kLower, "Parameters of one wrapped module may differ in requires_grad."},
  {"fsdp_cpu_ram_efficient_loading", 0, K::kText, "true", "", G::kFsdp, "FSDP_CPU_RAM_EFFICIENT_LOADING", R::kLower, "Only rank 0 reads the checkpoint."},
  {"fsdp_sync_module_states", 0, K::kText, "true", "", G::kFsdp, "FSDP_SYNC_MODULE_STATES", R::kLower, "Parameters are broadcast from rank 0 at the start."},
  {"fsdp_activation_checkpointing", 0, K::kText, "false", "", G::kFsdp, "FSDP_ACTIVATION_CHECKPOINTING", R::kLower, "Recompute activations in the backward pass."},
  {"fsdp_activation_checkpointing_offload", 0, K::kText, "false", "", G::kFsdp, "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD", R::kLower, "Keep checkpointed activations in host memory."},

  {"use_deepspeed", 0, K::kFlag, nullptr, "", G::kDeepspeed, "", R::kNone, "Use DeepSpeed, which must be installed.", kCommon},
  {"deepspeed_config_file", 0, K::kText, nullptr, "", G::kDeepspeed, "ACCELERATE_DEEPSPEED_CONFIG_FILE", R::kIfSet, "DeepSpeed's own configuration."},
  {"zero_stage", 0, K::kInteger, nullptr, "", G::kDeepspeed, "ACCELERATE_DEEPSPEED_ZERO_STAGE", R::kIfSet, "ZeRO stage."},
  {"offload_optimizer_device", 0, K::kText, nullptr, "", G::kDeepspeed, "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", R::kIfSetLower, "none, cpu or nvme."},
  {"offload_param_device", 0, K::kText, nullptr, "", G::kDeepspeed, "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", R::kIfSetLower, "none, cpu or nvme."},
  {"offload_optimizer_nvme_path", 0, K::kText, nullptr, "", G::kDeepspeed, "", R::kNone, "Accepted, but accelerate itself does not use it. Use --deepspeed_config_file."},
  {"offload_param_nvme_path", 0, K::kText, nullptr, "", G::kDeepspeed, "", R::kNone, "Accepted, but accelerate itself does not use it. Use --deepspeed_config_file."},
  {"gradient_accumulation_steps", 0, K::kInteger, nullptr, "", G::kDeepspeed, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", R::kIfSet, "Steps between updates."},
  {"gradient_clipping", 0, K::kNumber, nullptr, "", G::kDeepspeed, "ACCELERATE_GRADIENT_CLIPPING", R::kIfSetLower, "Largest norm of the gradient."},
  {"zero3_init_flag", 0, K::kText, nullptr, "", G::kDeepspeed, "ACCELERATE_DEEPSPEED_ZERO3_INIT", R::kIfSetLower, "Build large models sharded."},
  {"zero3_save_16bit_model", 0, K::kText, nullptr, "", G::kDeepspeed, "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL", R::kIfSetLower, "Save in 16 bits."},
  {"deepspeed_hostfile", 0, K::kText, nullptr, "", G::kDeepspeed, "", R::kNone, "Run on the hosts in this file, over ssh, as muster run --hostfile does."},
  {"deepspeed_exclusion_filter", 0, K::kText, nullptr, "", G::kDeepspeed, "", R::kNone, "Not supported: leave hosts out of the file."},
  {"deepspeed_inclusion_filter", 0, K::kText, nullptr, "", G::kDeepspeed, "", R::kNone, "Not supported: leave hosts out of the file."},
  {"deepspeed_multinode_launcher", 0, K::kText, nullptr, "", G::kDeepspeed, "", R::kNone, "Accepted for compatibility. muster is the launcher."},
  {"deepspeed_moe_layer_cls_names", 0, K::kText, nullptr, "", G::kDeepspeed, "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES", R::kIfSet, "Mixture-of-experts layers, comma-separated."},

  {"use_megatron_lm", 0, K::kFlag, nullptr, "", G::kMegatron, "", R::kNone, "Use Megatron-LM, which must be installed."},
  {"megatron_lm_tp_degree", 0, K::kInteger, "1", "", G::kMegatron, "MEGATRON_LM_TP_DEGREE", R::kAlways, "Tensor parallelism."},
  {"megatron_lm_use_custom_fsdp", 0, K::kBool, "False", "", G::kMegatron, "MEGATRON_LM_USE_CUSTOM_FSDP", R::kAlways, "Use Megatron's own FSDP."},
  {"megatron_lm_no_load_optim", 0, K::kBool, "False", "", G::kMegatron, "MEGATRON_LM_NO_LOAD_OPTIM", R::kIfSet, "Do not load the optimizer state."},
  {"megatron_lm_eod_mask_loss", 0, K::kBool, "False", "", G::kMegatron, "MEGATRON_LM_EOD_MASK_LOSS", R::kIfSet, "Mask the loss at the end of documents."},
  {"megatron_lm_overlap_cpu_optimizer_d2h_h2d", 0, K::kBool, "False", "", G::kMegatron, "MEGATRON_LM_OVERLAP_CPU_OPTIMIZER_D2H_H2D", R::kIfSet, "Copy data while the CPU optimizer works."},
  {"megatron_lm_no_save_optim", 0, K::kBool, "False", "", G::kMegatron, "MEGATRON_LM_NO_SAVE_OPTIM", R::kIfSet, "Do not save the optimizer state."},
  {"megatron_lm_optimizer_cpu_offload", 0, K::kBool, "False", "", G::kMegatron, "MEGATRON_LM_OPTIMIZER_CPU_OFFLOAD", R::kIfSet, "Run the optimizer on the CPU."},
  {"megatron_lm_use_precision_aware_optimizer", 0, K::kBool, "False", "", G::kMegatron, "MEGATRON_LM_USE_PRECISION_AWARE_OPTIMIZER", R::kIfSet, "Keep the optimizer state in lower precision."},
  {"megatron_lm_decoder_last_pipeline_num_layers", 0, K::kInteger, nullptr, "", G::kMegatron, "MEGATRON_LM_DECODER_LAST_PIPELINE_NUM_LAYERS", R::kIfSet, "Layers of the last stage."},
  {"megatron_lm_pp_degree", 0, K::kInteger, "1", "", G::kMegatron, "MEGATRON_LM_PP_DEGREE", R::kAlways, "Pipeline parallelism."},
  {"megatron_lm_num_micro_batches", 0, K::kInteger, nullptr, "", G::kMegatron, "MEGATRON_LM_NUM_MICRO_BATCHES", R::kIfSet, "Micro-batches."},
  {"megatron_lm_sequence_parallelism", 0, K::kText, nullptr, "", G::kMegatron, "MEGATRON_LM_SEQUENCE_PARALLELISM", R::kIfSet, "Sequence parallelism."},
  {"megatron_lm_recompute_activations", 0, K::kText, nullptr, "", G::kMegatron, "MEGATRON_LM_RECOMPUTE_ACTIVATIONS", R::kIfSet, "Recompute activations."},
  {"megatron_lm_use_distributed_optimizer", 0, K::kText, nullptr, "", G::kMegatron, "MEGATRON_LM_USE_DISTRIBUTED_OPTIMIZER", R::kIfSet, "Distributed optimizer."},
  {"megatron_lm_gradient_clipping", 0, K::kNumber, "1.0", "", G::kMegatron, "MEGATRON_LM_GRADIENT_CLIPPING", R::kAlways, "Largest norm of the gradient; 0: any."},
  {"megatron_lm_recompute_granularity", 0, K::kText, nullptr, "", G::kMegatron, "MEGATRON_LM_RECOMPUTE_GRANULARITY", R::kIfSet, "full or selective."},
  {"megatron_lm_recompute_method", 0, K::kText, nullptr, "", G::kMegatron, "MEGATRON_LM_RECOMPUTE_METHOD", R::kIfSet, "uniform or block."},
  {"megatron_lm_recompute_num_layers", 0, K::kInteger, nullptr, "", G::kMegatron, "MEGATRON_LM_RECOMPUTE_NUM_LAYERS", R::kIfSet, "Layers to recompute."},
  {"megatron_lm_attention_backend", 0, K::kText, nullptr, "", G::kMegatron, "MEGATRON_LM_ATTENTION_BACKEND", R::kIfSet, "Attention backend."},
  {"megatron_lm_expert_model_parallel_size", 0, K::kInteger, nullptr, "", G::kMegatron, "MEGATRON_LM_EXPERT_MODEL_PARALLEL_SIZE", R::kIfSet, "Expert parallelism."},
  {"megatron_lm_context_parallel_size", 0, K::kInteger, nullptr, "", G::kMegatron, "MEGATRON_LM_CONTEXT_PARALLEL_SIZE", R::kIfSet, "Context parallelism."},
  {"megatron_lm_attention_dropout", 0, K::kNumber, nullptr, "", G::kMegatron, "MEGATRON_LM_ATTENTION_DROPOUT", R::kIfSet, "Dropout in attention."},
  {"megatron_lm_hidden_dropout", 0, K::kNumber, nullptr, "", G::kMegatron, "MEGATRON_LM_HIDDEN_DROPOUT", R::kIfSet, "Dropout of hidden states."},
  {"megatron_lm_attention_softmax_in_fp32", 0, K::kText, nullptr, "", G::kMegatron, "MEGATRON_LM_ATTENTION_SOFTMAX_IN_FP32", R::kIfSet, "Softmax of attention in fp32."},
  {"megatron_lm_expert_tensor_parallel_size", 0, K::kInteger, nullptr, "", G::kMegatron, "MEGATRON_LM_EXPERT_TENSOR_PARALLEL_SIZE", R::kIfSet, "Tensor parallelism of experts."},
  {"megatron_lm_calculate_per_token_loss", 0, K::kText, nullptr, "", G::kMegatron, "MEGATRON_LM_CALCULATE_PER_TOKEN_LOSS", R::kIfSet, "Loss per token."},
  {"megatron_lm_use_rotary_position_embeddings", 0, K::kText, nullptr, "", G::kMegatron, "MEGATRON_LM_USE_ROTARY_POSITION_EMBEDDINGS", R::kIfSet, "Rotary position embeddings."},

  {"use_parallelism_config", 0, K::kFlag, nullptr, "", G::kParallelism, "", R::kNone, "Combine several kinds of parallelism. Needs --use_fsdp --fsdp_version 2."},
  {"parallelism_config_dp_replicate_size", 0, K::kInteger, "1", "", G::kParallelism, "PARALLELISM_CONFIG_DP_REPLICATE_SIZE", R::kAlways, "Replicas."},
  {"parallelism_config_dp_shard_size", 0, K::kInteger, "1", "", G::kParallelism, "PARALLELISM_CONFIG_DP_SHARD_SIZE", R::kAlways, "Shards."},
  {"parallelism_config_tp_size", 0, K::kInteger, "1", "", G::kParallelism, "PARALLELISM_CONFIG_TP_SIZE", R::kAlways, "Tensor parallelism."},
  {"parallelism_config_cp_size", 0, K::kInteger, "1", "", G::kParallelism, "PARALLELISM_CONFIG_CP_SIZE", R::kAlways, "Context parallelism."},
  {"parallelism_config_cp_backend", 0, K::kText, "torch", "torch", G::kParallelism, "PARALLELISM_CONFIG_CP_BACKEND", R::kAlways, "Backend of context parallelism."},
  {"parallelism_config_cp_comm_strategy", 0, K::kText, "allgather", "", G::kParallelism, "", R::kNone, "allgather or alltoall."},
  {"parallelism_config_sp_size", 0, K::kInteger, "1", "", G::kParallelism, "PARALLELISM_CONFIG_SP_SIZE", R::kAlways, "Sequence parallelism."},
  {"parallelism_config_sp_backend", 0, K::kText, "deepspeed", "deepspeed", G::kParallelism, "PARALLELISM_CONFIG_SP_BACKEND", R::kAlways, "Backend of sequence parallelism."},
  {"parallelism_config_sp_seq_length", 0, K::kText, nullptr, "", G::kParallelism, "", R::kNone, "Length of the sequences."},
  {"parallelism_config_sp_seq_length_is_variable", 0, K::kBool, "True", "", G::kParallelism, "", R::kNone, "Whether the length of sequences varies."},
  {"parallelism_config_sp_attn_implementation", 0, K::kText, "sdpa", "", G::kParallelism, "", R::kNone, "Implementation of attention."},

  {"tpu_cluster", 0, K::kFlag, nullptr, "", G::kElsewhere, "", R::kNone, "Not supported."},
  {"no_tpu_cluster", 0, K::kFlag, nullptr, "", G::kElsewhere, "", R::kNone, "No effect."},
  {"tpu_use_sudo", 0, K::kFlag, nullptr, "", G::kElsewhere, "", R::kNone, "No effect."},
  {"vm", 0, K::kText, nullptr, "", G::kElsewhere, "", R::kNone, "No effect."},
  {"main_training_function", 0, K::kText, nullptr, "", G::kElsewhere, "", R::kNone, "No effect: it is for TPUs."},
  {"downcast_bf16", 0, K::kFlag, nullptr, "", G::kElsewhere, "", R::kNone, "No effect: it is for TPUs."},
  {"aws_access_key_id", 0, K::kText, nullptr, "", G::kElsewhere, "", R::kNone, "No effect: it is for SageMaker."},
  {"aws_secret_access_key", 0, K::kText, nullptr, "", G::kElsewhere, "", R::kNone, "No effect: it is for SageMaker."},

  {"use_cpu", 0, K::kFlag, nullptr, "", G::kInternal, "", R::kNone, "use_cpu of the config file."},
  {"distributed_type", 0, K::kText, nullptr, "", G::kInternal, "", R::kNone, "distributed_type of the config file; set only if there is a file."},
  {"deepspeed_fields", 0, K::kText, nullptr, "", G::kInternal, "", R::kNone, "DeepSpeed settings that the config file has."},
  {"fsdp_ignored_modules", 0, K::kText, nullptr, "", G::kInternal, "FSDP_IGNORED_MODULES", R::kIfSet, "Only in the config file."},
};
// clang-format on

constexpr std::array kShownGroups = {G::kProcesses, G::kMachines,    G::kHardware, G::kProgram,
                                     G::kOutput,    G::kDynamo,      G::kFsdp,     G::kDeepspeed,
                                     G::kMegatron,  G::kParallelism, G::kFp8,      G::kElsewhere};

// Other launchers' names for the same thing.
constexpr std::pair<std::string_view, std::string_view> kSynonyms[] = {
    {"nproc_per_node", "num_processes"},  {"np", "num_processes"},
    {"nprocs", "num_processes"},          {"nnodes", "num_machines"},
    {"num_nodes", "num_machines"},        {"node_rank", "machine_rank"},
    {"master_addr", "main_process_ip"},   {"rdzv_endpoint", "main_process_ip"},
    {"master_port", "main_process_port"}, {"use_cpu", "cpu"},
    {"hostfile", "mpirun_hostfile"},      {"gpus", "gpu_ids"},
    {"num_gpus", "num_processes"},        {"fp16", "mixed_precision"},
};

std::string underscored(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

}  // namespace

std::span<const Option> options() { return kOptions; }

const Option* find_option(std::string_view name) {
  const std::string wanted = underscored(name);
  const auto* found =
      std::find_if(std::begin(kOptions), std::end(kOptions), [&](const Option& o) { return o.name == wanted; });
  return found == std::end(kOptions) ? nullptr : found;
}

const Option* find_short(char flag) {
  const auto* found =
      std::find_if(std::begin(kOptions), std::end(kOptions), [&](const Option& o) { return o.short_flag == flag; });
  return flag == 0 || found == std::end(kOptions) ? nullptr : found;
}

std::optional<int64_t> parse_integer(const Option& option, std::string_view text) {
  if (option.name == "num_processes")
    if (auto gpus = process::parse_typed_gpus(text)) return *gpus;
  return parse_int(text);
}

std::string nearest_flag(std::string_view name) {
  const std::string wanted = underscored(name);
  for (const auto& [other, ours] : kSynonyms)
    if (other == wanted) return fmt::format("--{}", ours);
  const Option* best = nullptr;
  size_t best_distance = std::max<size_t>(3, wanted.size() / 3 + 1);
  for (const Option& option : kOptions) {
    if (option.group == Group::kInternal || option.group == Group::kElsewhere) continue;
    // Cut short, which accelerate does not allow, is the nearest there is.
    const bool begins = wanted.size() > 3 && option.name.starts_with(wanted);
    const size_t distance = begins ? 0 : edit_distance(wanted, option.name);
    if (distance < best_distance) {
      best = &option;
      best_distance = distance;
    }
  }
  return best == nullptr ? "" : fmt::format("--{}", best->name);
}

std::string_view group_title(Group group) {
  switch (group) {
    case Group::kHardware:
      return "Hardware";
    case Group::kProcesses:
      return "Processes";
    case Group::kMachines:
      return "Machines";
    case Group::kProgram:
      return "What is run";
    case Group::kOutput:
      return "Output";
    case Group::kDynamo:
      return "torch.compile";
    case Group::kFp8:
      return "fp8";
    case Group::kFsdp:
      return "FSDP";
    case Group::kDeepspeed:
      return "DeepSpeed";
    case Group::kMegatron:
      return "Megatron-LM";
    case Group::kParallelism:
      return "Parallelism";
    case Group::kElsewhere:
      return "TPU and SageMaker";
    case Group::kInternal:
      break;
  }
  return "";
}

std::span<const Group> shown_groups() { return kShownGroups; }

}  // namespace muster::accelerate
