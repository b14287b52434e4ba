#include "muster/cli/verbs.h"

#include <algorithm>
#include <array>

#include "muster/base/strings.h"

namespace muster::cli {
namespace {

constexpr Example kRunExamples[] = {
    {"muster run train.py --epochs 3", "one worker per GPU (one if there is none), as python -u train.py --epochs 3"},
    {"muster run --hosts n1,n2:4,gpu[01-16] train.py", "on these hosts, over ssh; n2 with four workers"},
    {"muster run --nproc-per-node 4 -m my.module", "four workers of a module"},
    {"muster run --nproc-per-node 8 ./a.out", "a program that is not Python"},
    {"muster run --nnodes 2 --node-rank 1 --master-addr n1 train.py",
     "the second of two nodes that each run their own muster, as with torchrun"},
    {"muster run --nnodes 2:4 --rdzv-endpoint n1 train.py", "the same on every one of two to four nodes"},
    {"muster run --nproc-per-node 2 --max-restarts 3 --log-dir logs train.py", "restarts; log files of every round"},
    {"muster run --nproc-per-node 2 --dry-run train.py", "what would be started, and with which environment"},
};
constexpr Example kTorchrunExamples[] = {
    {"muster torchrun --standalone --nproc-per-node=gpu train.py", "as torchrun would do it"},
    {"ln -s \"$(command -v muster)\" ~/bin/torchrun", "the same under torchrun's own name"},
};
constexpr Example kLaunchExamples[] = {
    {"muster launch --nproc_per_node=2 train.py", "the script gets --local-rank=0 and --local-rank=1"},
    {"muster launch --use-env --nproc_per_node=2 train.py", "the script reads LOCAL_RANK instead"},
};
constexpr Example kStoreExamples[] = {
    {"muster store --port 29500",
     "any PyTorch of 1.13 to 2.15 can connect with TCPStore(host, 29500, is_master=False)"},
};
constexpr Example kEnvExamples[] = {{"muster env --json", "every variable with who sets it and what it means"}};
constexpr Example kCompletionExamples[] = {
    {"source <(muster completion bash)", "for this shell"},
    {"muster completion fish > ~/.config/fish/completions/muster.fish", "for good"},
};
constexpr Example kManExamples[] = {{"muster man | man -l -", "read it without installing it"}};
constexpr Example kStatusExamples[] = {
    {"muster status", "every job on several nodes that you started on this machine"},
    {"muster status 1b4e --json", "one job, by the first characters of its id, for scripts"},
};
constexpr Example kWhereExamples[] = {
    {"muster where", "in a batch script, an salloc shell, a step, or at your desk"},
    {"muster where --json", "for scripts"},
};
constexpr Example kAccelerateExamples[] = {
    {"muster accelerate launch --num_processes 8 train.py", "eight processes in all, as asked"},
    {"srun muster accelerate launch --num_machines 2 --num_processes 8 --main_process_ip n1 train.py",
     "on two nodes; --machine_rank may be left out"},
};
constexpr Example kAgentExamples[] = {{"muster run --hosts n1,n2 train.py", "starts one on n1 and one on n2"}};
constexpr Example kVersionExamples[] = {{"muster version --json", "for scripts"}};
constexpr Example kHelpExamples[] = {{"muster help run", "the same as muster run --help"}};

constexpr std::array kVerbs = {
    VerbInfo{
        Verb::kRun, "run", Words::kProgram, "PROGRAM [ARGUMENT…]", "",
        "run a program on every device of this machine, or of many, as one job",
        "Starts PROGRAM once for every worker, gives each its rank and the address of a store they meet in, shows "
        "their output line by line, and stops all of them when one fails. With --hosts it does so on many machines, "
        "from "
        "here; or each machine runs its own muster, as with torchrun (--nnodes). A .py file, a zipapp or a package "
        "directory is run by the python on PATH (PYTHON_EXEC, if set), and so is a script whose first line starts "
        "muster; "
        "an executable by itself. All of "
        "torchrun's options mean here what they mean there. The exit code is the one of the worker that failed "
        "first, 128 + n for a signal; 2: usage; 125: muster itself; 126 and 127: not executable, not found.",
        kRunExamples},
    VerbInfo{Verb::kTorchrun, "torchrun", Words::kProgram, "PROGRAM [ARGUMENT…]", "",
             "the same with torchrun's defaults, output and exit codes",
             "torchrun's command line to the letter: its flags and abbreviations, its defaults (one worker, "
             "OMP_NUM_THREADS=1), its environment, its output format and its exit codes. A symbolic link to muster "
             "that is named torchrun does the same.",
             kTorchrunExamples},
    VerbInfo{Verb::kLaunch, "launch", Words::kProgram, "PROGRAM [ARGUMENT…]", "", "python -m torch.distributed.launch",
             "torchrun's command line, and the script's first argument is --local-rank=N (--local_rank=N if torch is "
             "older than 2.0) unless --use-env is given.",
             kLaunchExamples},
    VerbInfo{Verb::kStore, "store", Words::kNone, "", "", "serve PyTorch's TCPStore protocol on a port",
             "A store by itself: any PyTorch program, and any number of them, can use it as a TCPStore. Ends with "
             "SIGTERM or SIGINT.",
             kStoreExamples},
    VerbInfo{Verb::kStatus, "status", Words::kOptional, "[JOB]", "", "show the jobs on several nodes that run",
             "Asks the jobs that you started on this machine (for nodes that each run their own muster: those that are "
             "hosted here): nodes, round, restarts, ranks and process ids, since when. JOB is an id or its first "
             "characters.",
             kStatusExamples},
    VerbInfo{
        Verb::kAccelerate, "accelerate", Words::kProgram, "PROGRAM [ARGUMENT…]", "launch",
        "accelerate launch, with its flags, config file and environment",
        "The command line of Hugging Face's `accelerate launch`, which does what was asked: --num_processes is the "
        "number of all processes on all machines, with or without GPUs. A symbolic link to muster that is named "
        "accelerate-launch does the same.",
        kAccelerateExamples},
    VerbInfo{Verb::kWhere, "where", Words::kNone, "", "", "say where this is, and what muster run would do here",
             "What was found of a scheduler or of variables that say where nodes meet, which nodes there are, and how "
             "`muster run` would start a job here.",
             kWhereExamples},
    VerbInfo{Verb::kEnv, "env", Words::kNone, "", "", "list the environment variables muster sets and reads",
             "The variables that muster gives to workers or reads itself, and what they mean.", kEnvExamples},
    VerbInfo{Verb::kCompletion, "completion", Words::kOne, "bash|zsh|fish", "bash|zsh|fish",
             "print a completion script for a shell", "Prints the script on stdout.", kCompletionExamples},
    VerbInfo{Verb::kMan, "man", Words::kNone, "", "", "print the man page", "Prints muster(1) in roff.", kManExamples},
    VerbInfo{Verb::kVersion, "version", Words::kNone, "", "", "print the version", "The same as muster --version.",
             kVersionExamples},
    VerbInfo{Verb::kHelp, "help", Words::kOptional, "[VERB]", "", "explain a verb", "Without a verb: what there is.",
             kHelpExamples},
    VerbInfo{
        Verb::kAgent, "agent", Words::kNone, "", "", "the part of a job on one node; started by muster itself",
        "What `muster run --hosts` starts on every node. It says its version on stdout, reads what it is to do from "
        "stdin, connects back and runs the workers of its node. Not for use by hand.",
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
