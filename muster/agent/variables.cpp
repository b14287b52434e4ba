#include "muster/agent/worker_env.h"

namespace muster::agent {

const std::vector<Variable>& declared_variables() {
  static const std::vector<Variable> kVariables = {
      {"RANK", kSetByMuster, "number of this worker in the whole job, from 0"},
      {"LOCAL_RANK", kSetByMuster, "number of this worker on its node, from 0; always 0 with --virtual-local-rank"},
      {"GROUP_RANK", kSetByMuster, "number of this node, from 0"},
      {"GROUP_WORLD_SIZE", kSetByMuster, "number of nodes"},
      {"LOCAL_WORLD_SIZE", kSetByMuster, "number of workers on this node"},
      {"WORLD_SIZE", kSetByMuster, "number of workers in the whole job"},
      {"ROLE_NAME", kSetByMuster, "--role"},
      {"ROLE_RANK", kSetByMuster, "RANK, counted among workers of the same role"},
      {"ROLE_WORLD_SIZE", kSetByMuster, "WORLD_SIZE, counted among workers of the same role"},
      {"MASTER_ADDR", kSetByMuster, "host of this round's store: the node of rank 0"},
      {"MASTER_PORT", kSetByMuster, "its port"},
      {"TORCHELASTIC_RESTART_COUNT", kSetByMuster, "restarts so far"},
      {"TORCHELASTIC_MAX_RESTARTS", kSetByMuster, "--max-restarts"},
      {"TORCHELASTIC_RUN_ID", kSetByMuster, "--rdzv-id; its presence tells PyTorch that a launcher started it"},
      {"TORCHELASTIC_USE_AGENT_STORE", kSetByMuster, "True: muster hosts the store; False: the worker of rank 0 does"},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", kSetByMuster, "--signals-to-handle"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", kSetByMuster,
       "1 unless you set it; NCCL_ASYNC_ERROR_HANDLING for torch up to 2.1"},
      {"OMP_NUM_THREADS", kSetByMuster,
       "unless you set it: the cores of this job divided among the workers (muster torchrun: 1 for several workers)"},
      {"CUDA_VISIBLE_DEVICES", kSetByMuster, "with --virtual-local-rank: the one device of this worker"},
      {"MUSTER_VERSION", kSetByMuster, "version of the muster that started this worker"},
      {"MUSTER_JOB", kSetByMuster, "id of the job; no other job has it"},
      {"MUSTER_WORKER", kSetByMuster, "id of this worker: job, round and rank"},
      {"MUSTER_ROUND", kSetByMuster, "how often all workers have been started before"},
      {"MUSTER_ATTEMPT", kSetByMuster, "how often the scheduler has started the job before; yours if you set it"},
      {"MUSTER_HOST", kSetByMuster, "name of this node"},

      {"CUDA_VISIBLE_DEVICES", kSetByYou, "the GPUs of this job; counted for the number of workers"},
      {"ROCR_VISIBLE_DEVICES", kSetByYou, "the same for ROCm"},
      {"HIP_VISIBLE_DEVICES", kSetByYou, "the same for HIP"},
      {"ZE_AFFINITY_MASK", kSetByYou, "the same for oneAPI"},
      {"PATH", kSetByYou, "where python (or python3) and programs are found"},
      {"PYTHON_EXEC", kSetByYou, "the Python that runs scripts, instead of the one on PATH"},
      {"PET_*", kSetByYou, "default of the option of that name: PET_NPROC_PER_NODE for --nproc-per-node"},
      {"TMPDIR", kSetByYou, "where logs and spools go when no --log-dir is given; /tmp otherwise"},
      {"NO_COLOR", kSetByYou, "any value: no colours"},
      {"LOGLEVEL", kSetByYou, "how much muster torchrun says: DEBUG, INFO, WARNING (the default), ERROR"},
      {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", kSetByYou,
       "what stands before a worker's lines: ${role_name} ${rank} ${local_rank} ${hostname}"},
      {"TORCHELASTIC_ERROR_FILE", kSetByYou, "where muster copies the root cause's error file"},
      {"TORCHELASTIC_ERROR_FILE", kSetByMuster, "where this worker may say, in JSON, why it failed"},
      {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", kSetByYou, "default of --shutdown-timeout"},
      {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", kSetByYou, "1: as --store worker"},
      {"TORCHELASTIC_ENABLE_FILE_TIMER", kSetByYou,
       "1: obey the timers that workers set through torch's FileTimerClient"},
      {"TORCHELASTIC_TIMER_FILE", kSetByYou, "the pipe of those timers; a fresh one otherwise"},
      {"TORCHELASTIC_TIMER_FILE", kSetByMuster, "the pipe of the file timers, where they are enabled"},
      {"MUSTER_ATTEMPT", kSetByYou, "how often the scheduler has started this job before"},
  };
  return kVariables;
}

}  // namespace muster::agent
