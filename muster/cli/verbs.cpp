#include "muster/cli/verbs.h"

#include <algorithm>
#include <array>

#include "muster/base/strings.h"

namespace muster::cli {
namespace {

// The first three are in `muster --help` too.
constexpr Example kRunExamples[] = {
    {"muster run train.py --epochs 3", "one worker per GPU of this machine; one worker if there is no GPU"},
    {"muster run --hosts n1,n2 train.py", "the same on two machines, started from here over ssh"},
    {"muster run --nproc-per-node 4 -m my.module", "four workers, each runs a Python module"},
    {"muster run --nnodes 2:4 --rdzv-endpoint n1 train.py",
     "run this on each of two to four machines; they meet at n1"},
    {"muster run --max-restarts 3 --log-dir logs train.py",
     "start again after a failure, up to 3 times; keep logs of every round"},
    {"muster run --nnodes 2 --node-rank 1 --master-addr n1 train.py", "the second of two machines, as with torchrun"},
    {"muster run --hosts n1,n2:4,gpu[01-16] train.py", "18 machines; n2 runs four workers"},
    {"muster run --local-nodes 2 --nproc-per-node 2 train.py", "two simulated nodes on this machine, to try it out"},
    {"muster run --nproc-per-node 8 ./a.out", "a program that is not Python"},
    {"muster run --nproc-per-node 2 --dry-run train.py", "show what would be started, with which environment"},
};
constexpr Example kTorchrunExamples[] = {
    {"muster torchrun --standalone --nproc-per-node=gpu train.py", "one worker per GPU, as with torchrun"},
    {"ln -s \"$(command -v muster)\" ~/bin/torchrun", "a link, so that typing torchrun runs muster"},
};
constexpr Example kLaunchExamples[] = {
    {"muster launch --nproc_per_node=2 train.py", "the script gets --local-rank=0 and --local-rank=1"},
    {"muster launch --use-env --nproc_per_node=2 train.py", "the script reads LOCAL_RANK instead"},
};
constexpr Example kStoreExamples[] = {
    {"muster store --port 29500", "PyTorch 1.13 to 2.15 can connect to it with TCPStore(host, 29500, is_master=False)"},
};
constexpr Example kEnvExamples[] = {{"muster env --json", "each variable, what sets it and what it means"}};
constexpr Example kCompletionExamples[] = {
    {"source <(muster completion bash)", "for this shell"},
    {"muster completion fish > ~/.config/fish/completions/muster.fish", "for every shell you start"},
};
constexpr Example kManExamples[] = {{"muster man | man -l -", "read the man page without installing it"}};
constexpr Example kStatusExamples[] = {
    {"muster status", "all jobs that you started on this machine"},
    {"muster status 1b4e --json", "one job, by the first characters of its id, as JSON"},
};
constexpr Example kWhereExamples[] = {
    {"muster where", "in a batch script, an salloc shell, a job step, or on your own machine"},
    {"muster where --json", "the same as JSON, for scripts"},
};
constexpr Example kAccelerateExamples[] = {
    {"muster accelerate launch --num_processes 8 train.py", "eight processes on this machine"},
    {"muster accelerate launch --hosts n1,n2 train.py", "one process per GPU on two machines, over ssh"},
    {"srun muster accelerate launch --num_processes 8 train.py", "eight processes on all nodes of the Slurm step"},
};
constexpr Example kAgentExamples[] = {{"muster run --hosts n1,n2 train.py", "starts one agent on n1 and one on n2"}};
constexpr Example kVersionExamples[] = {{"muster version --json", "the same as JSON, for scripts"}};
constexpr Example kHelpExamples[] = {{"muster help run", "the same as muster run --help"}};

constexpr std::array kVerbs = {
    VerbInfo{Verb::kRun, "run", Words::kProgram, "PROGRAM [ARGUMENT…]", "",
             "run a program on every GPU of one machine or of many",
             "Starts PROGRAM once per GPU, on this machine or on many, as one job. Gives each worker its rank, shows "
             "their output line by line, and stops all workers when one fails. All options of torchrun work. In a "
             "Slurm or PBS job it uses all nodes of the job.",
             kRunExamples,
             "Workers meet in a store whose address muster gives them. With --hosts muster starts the other machines "
             "itself; with --nnodes each machine runs its own muster, as with torchrun. Python runs a .py file, a "
             "zipapp, a package directory, and a script whose first line starts muster: the python on PATH, or "
             "PYTHON_EXEC if it is set. Any other executable runs by itself. The exit code is that of the worker that "
             "failed first, 128 + n for signal n; 2: wrong usage; 125: muster itself failed; 126: not executable; 127: "
             "not found."},
    VerbInfo{Verb::kTorchrun, "torchrun", Words::kProgram, "PROGRAM [ARGUMENT…]", "",
             "the same, with torchrun's defaults, output and exit codes",
             "Behaves as torchrun does: the same flags and abbreviations, defaults (one worker, OMP_NUM_THREADS=1), "
             "environment, output format and exit codes. A symbolic link to muster with the name torchrun does the "
             "same.",
             kTorchrunExamples},
    VerbInfo{Verb::kAccelerate, "accelerate", Words::kProgram, "PROGRAM [ARGUMENT…]", "launch",
             "accelerate launch, with its flags, config file and environment",
             "Behaves as Hugging Face's `accelerate launch` does, and starts as many processes as you ask for: "
             "--num_processes counts the processes on all machines, with or without GPUs. A symbolic link to muster "
             "with the name accelerate-launch does the same.",
             kAccelerateExamples},
    VerbInfo{Verb::kLaunch, "launch", Words::kProgram, "PROGRAM [ARGUMENT…]", "", "python -m torch.distributed.launch",
             "Takes torchrun's options. The first argument of the script is --local-rank=N (--local_rank=N if torch "
             "is older than 2.0), unless you give --use-env.",
             kLaunchExamples},
    VerbInfo{Verb::kWhere, "where", Words::kNone, "", "", "show what muster run would do here, and why",
             "Shows the scheduler or the variables that muster found, the nodes, and how `muster run` would start a "
             "job here.",
             kWhereExamples},
    VerbInfo{Verb::kStatus, "status", Words::kOptional, "[JOB]", "", "show your running jobs",
             "Shows nodes, round, restarts, ranks, process ids and times of the jobs that you started on this "
             "machine. If each node runs its own muster, the node that hosts the job shows it. JOB is the id of a job, "
             "its first characters, or its --rdzv-id.",
             kStatusExamples},
    VerbInfo{Verb::kEnv, "env", Words::kNone, "", "", "list the environment variables that muster sets and reads",
             "Lists the variables that muster gives to workers or reads itself, and what they mean.", kEnvExamples},
    VerbInfo{Verb::kStore, "store", Words::kNone, "", "", "serve PyTorch's TCPStore protocol on a port",
             "Runs a store without a job. Any number of PyTorch programs can use it as a TCPStore. SIGTERM or SIGINT "
             "ends it.",
             kStoreExamples},
    VerbInfo{Verb::kCompletion, "completion", Words::kOne, "bash|zsh|fish", "bash|zsh|fish",
             "print a completion script for a shell",
             "Prints a script that completes muster's verbs and options in your shell.", kCompletionExamples},
    VerbInfo{Verb::kMan, "man", Words::kNone, "", "", "print the man page", "Prints muster(1) in roff to stdout.",
             kManExamples},
    VerbInfo{Verb::kVersion, "version", Words::kNone, "", "", "print the version", "The same as muster --version.",
             kVersionExamples},
    VerbInfo{Verb::kHelp, "help", Words::kOptional, "[VERB]", "", "explain a verb",
             "Explains a verb. Without VERB: lists the verbs.", kHelpExamples},
    VerbInfo{Verb::kAgent, "agent", Words::kNone, "", "", "the part of a job on one node; started by muster itself",
             "`muster run --hosts` starts an agent on every node. The agent prints its version, reads its task from "
             "stdin, connects to the launcher and runs the workers of its node. Do not start it yourself.",
             kAgentExamples},
};
constexpr size_t kHidden = 1;  // at the end

}  // namespace

std::span<const VerbInfo> verbs() { return std::span(kVerbs).first(kVerbs.size() - kHidden); }

const VerbInfo& info(Verb verb) {
  return *std::find_if(kVerbs.begin(), kVerbs.end(), [&](const VerbInfo& v) { return v.verb == verb; });
}

const VerbInfo* find_verb(std::string_view name) {
  const auto* found = std::find_if(kVerbs.begin(), kVerbs.end(), [&](const VerbInfo& v) { return v.name == name; });
  return found == kVerbs.end() ? nullptr : found;
}

const VerbInfo* nearest_verb(std::string_view name) {
  std::vector<std::string_view> names;
  for (const VerbInfo& verb : verbs()) names.push_back(verb.name);
  const auto nearest = nearest_word(name, names);
  return nearest ? find_verb(*nearest) : nullptr;
}

}  // namespace muster::cli
