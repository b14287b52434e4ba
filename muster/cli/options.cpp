#include "muster/cli/options.h"

#include <algorithm>
#include <array>

#include "muster/base/strings.h"

namespace muster::cli {
namespace {

constexpr Verbs kTorch = Verb::kRun | Verb::kTorchrun | Verb::kLaunch;
constexpr Verbs kRunOnly = static_cast<Verbs>(Verb::kRun);
constexpr Verbs kEvery = kTorch | Verb::kStore | Verb::kEnv | Verb::kCompletion | Verb::kMan | Verb::kVersion |
                         Verb::kHelp | Verb::kStatus | Verb::kAgent | Verb::kWhere | Verb::kAccelerate;
constexpr bool kPet = true;

using K = OptionKind;
using G = OptionGroup;

// clang-format off
constexpr std::array<Option, static_cast<size_t>(Opt::kCount)> kOptions = {{
  {Opt::kHelp, "help", 'h', K::kFlag, "", nullptr, nullptr, "", false, true, false, kEvery, G::kInspect,
   "Show this text and exit."},
  {Opt::kNnodes, "nnodes", 0, K::kText, "N|MIN:MAX", "1:1", nullptr, "", kPet, false, false, kTorch, G::kNodes,
   "Number of nodes, or the range it may move in. With --hosts: how many of them work at once, all by default; the others "
   "are spares. Without: every node runs its own muster with the same --nnodes, and they meet at --master-addr or "
   "--rdzv-endpoint."},
  {Opt::kNprocPerNode, "nproc-per-node", 0, K::kText, "N|gpu|cpu|xpu|auto", "1", "one per GPU given to this process, else 1",
   "", kPet, false, false, kTorch, G::kWorkers,
   "Workers on each node: a number (v100:4, as Slurm may write it, too), gpu or xpu (one per device, an error if there is none), cpu (one per CPU in the affinity "
   "mask), or auto (devices if there are any, else CPUs)."},
  {Opt::kRdzvBackend, "rdzv-backend", 0, K::kText, "static|c10d", "static", nullptr, "", kPet, false, false, kTorch,
   G::kRendezvous, "How nodes find each other when each runs its own muster. static: each is told its --node-rank, and as many "
   "as --nnodes says (the larger number of a range) must come. c10d: the first to come get the ranks, and their number may "
   "move. `muster run` takes a range without --node-rank for c10d. etcd is not supported, use c10d."},
  {Opt::kRdzvEndpoint, "rdzv-endpoint", 0, K::kText, "HOST[:PORT]", "", nullptr, "", kPet, false, false, kTorch,
   G::kRendezvous, "The rendezvous address: the machine that has this name or address hosts the job; [v6] brackets for IPv6. static "
   "needs the port, which workers get as MASTER_PORT; c10d's is 29400 if none is given."},
  {Opt::kRdzvId, "rdzv-id", 0, K::kText, "ID", "none", "a fresh one", "", kPet, false, false, kTorch, G::kRendezvous,
   "Name of the job: TORCHELASTIC_RUN_ID, and the first part of its log directory. Nodes that each run their own muster give "
   "the same one."},
  {Opt::kRdzvConf, "rdzv-conf", 0, K::kText, "KEY=VALUE,…", "", nullptr, "", kPet, false, false, kTorch, G::kRendezvous,
   "Further settings of the rendezvous. c10d: join_timeout (600), last_call_timeout (how long to wait for more than MIN "
   "nodes; 3, muster torchrun: 30), keep_alive_interval times keep_alive_max_attempt (the same as --lease), is_host (1 or 0: "
   "this node hosts, or does not). static: timeout (as --join-timeout). torchrun's close_timeout, heartbeat_timeout and "
   "read_timeout are accepted, and change nothing."},
  {Opt::kStandalone, "standalone", 0, K::kFlag, "", nullptr, nullptr, "", kPet, false, false, kTorch, G::kRendezvous,
   "A job of this node alone, on a free port and with a fresh id; --rdzv-backend, --rdzv-endpoint and --rdzv-id are "
   "ignored. What `muster run` does anyway."},
  {Opt::kMaxRestarts, "max-restarts", 0, K::kInteger, "N", "0", nullptr, "", kPet, false, false, kTorch, G::kFailure,
   "How often all workers are started again after one has failed; one budget for all nodes, of which a lost node uses none. Logs of "
   "every round are kept."},
  {Opt::kMonitorInterval, "monitor-interval", 0, K::kNumber, "SECONDS", "0.1", nullptr, "", kPet, false, false, kTorch,
   G::kFailure, "Accepted for torchrun's sake: exits are seen at once, nothing is polled."},
  {Opt::kStartMethod, "start-method", 0, K::kText, "METHOD", "spawn", nullptr, "spawn|fork|forkserver", kPet, false, false,
   kTorch, G::kProgram, "Accepted for torchrun's sake: every worker is a process of its own, started afresh."},
  {Opt::kEventLogHandler, "event-log-handler", 0, K::kText, "null|console", "null", nullptr, "", kPet, false, false, kTorch,
   G::kOutput, "console: what happens to the job, as JSON lines on stderr. See also --events."},
  {Opt::kRole, "role", 0, K::kText, "NAME", "default", nullptr, "", kPet, false, false, kTorch, G::kWorkers,
   "Role of the workers: ROLE_NAME, and torchrun's line prefix."},
  {Opt::kModule, "module", 'm', K::kFlag, "", nullptr, nullptr, "", kPet, false, false, kTorch, G::kProgram,
   "PROGRAM is a Python module: python -u -m PROGRAM."},
  {Opt::kNoPython, "no-python", 0, K::kFlag, "", nullptr, nullptr, "", kPet, false, false, kTorch, G::kProgram,
   "Execute PROGRAM itself, found through PATH, whatever it looks like."},
  {Opt::kRunPath, "run-path", 0, K::kFlag, "", nullptr, nullptr, "", kPet, false, false, kTorch, G::kProgram,
   "Run the script with Python, whatever it looks like, by runpy.run_path, and end its process as those of multiprocessing end: exit handlers run "
   "and streams are flushed, but the interpreter is not taken down, so that a process group that was not destroyed does no harm."},
  {Opt::kLogDir, "log-dir", 0, K::kText, "DIR", nullptr, nullptr, "", kPet, false, false, kTorch, G::kOutput,
   "Base of the log files: DIR/<id>_<random>/attempt_<n>/<local rank>/{stdout.log,stderr.log,error.json}; on each of several "
   "nodes DIR/<id>_<job>/r<round>/<host>/<rank>.{out,err}. `muster run` then files both streams and shows them too, unless -r or "
   "-t say otherwise, starts <id> with the scheduler's job, and makes DIR/latest a link to the newest. /dev/null: no files."},
  {Opt::kRedirects, "redirects", 'r', K::kText, "MASK|RANK:MASK,…", "0", nullptr, "", kPet, false, false, kTorch, G::kOutput,
   "Streams that go to log files only: 0 none, 1 stdout, 2 stderr, 3 both; or by local rank, e.g. 0:3,1:2."},
  {Opt::kTee, "tee", 't', K::kText, "MASK|RANK:MASK,…", "0", nullptr, "", kPet, false, false, kTorch, G::kOutput,
   "Streams that go to log files and to the console; as --redirects."},
  {Opt::kLogLinePrefixTemplate, "log-line-prefix-template", 0, K::kText, "TEXT", "", nullptr, "", kPet, false, true, kTorch,
   G::kOutput, "The prefix of each line, with ${role_name} ${local_rank} ${rank} ${hostname}. "
   "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE does the same."},
  {Opt::kLocalRanksFilter, "local-ranks-filter", 0, K::kText, "RANK,…", "", nullptr, "", kPet, false, false, kTorch,
   G::kOutput, "Only these local ranks reach the console; log files are unaffected."},
  {Opt::kDuplicateStdoutFilters, "duplicate-stdout-filters", 0, K::kList, "TEXT,…", nullptr, nullptr, "", kPet, false, false,
   kTorch, G::kOutput, "Lines of tee'd stdout that contain any of these also go to filtered_stdout.log; ,, is a comma."},
  {Opt::kDuplicateStderrFilters, "duplicate-stderr-filters", 0, K::kList, "TEXT,…", nullptr, nullptr, "", kPet, false, false,
   kTorch, G::kOutput, "The same for stderr and filtered_stderr.log."},
  {Opt::kNodeRank, "node-rank", 0, K::kInteger, "N", "0", nullptr, "", kPet, false, false, kTorch, G::kRendezvous,
   "Number of this node in a static rendezvous, from 0; node 0 hosts the job and has the first ranks. Ignored by c10d and with "
   "--hosts."},
  {Opt::kMasterAddr, "master-addr", 0, K::kText, "HOST", "127.0.0.1", nullptr, "", kPet, false, false, kTorch,
   G::kRendezvous, "Address of node 0, the address of a static rendezvous; given to workers as MASTER_ADDR. With "
   "--hosts muster finds it by itself."},
  {Opt::kMasterPort, "master-port", 0, K::kInteger, "PORT", nullptr,
   "a free one each round; 29500 if each node runs its own muster", "", kPet, false, false, kTorch,
   G::kRendezvous, "Port of the store on node 0, given to workers as MASTER_PORT. A fixed port that is taken is an error, unless muster starts all nodes itself: then a free one is used."},
  {Opt::kLocalAddr, "local-addr", 0, K::kText, "HOST", nullptr, nullptr, "", kPet, false, false, kTorch, G::kRendezvous,
   "Address of this node, if the one that muster finds is wrong. Ignored in jobs on several nodes; use --interface there."},
  {Opt::kLogsSpecs, "logs-specs", 0, K::kText, "NAME", nullptr, nullptr, "", false, false, false, kTorch, G::kOutput,
   "Not supported: it names a Python class inside torchrun. Use --log-dir, -r, -t and --log-line-prefix-template."},
  {Opt::kNumaBinding, "numa-binding", 0, K::kText, "MODE", nullptr, nullptr, "node|socket|exclusive|core-complex", false,
   false, false, kTorch, G::kPlacement,
   "Bind each worker to CPUs near its GPU: all of its NUMA node, of its socket, a share of the node for itself alone, or one "
   "shared last-level cache. --dry-run shows the result; numactl is not needed."},
  {Opt::kSignalsToHandle, "signals-to-handle", 0, K::kText, "NAME,…", "SIGTERM,SIGINT,SIGHUP,SIGQUIT", nullptr, "", kPet,
   false, false, kTorch, G::kFailure, "Signals that end the job: each is passed to every worker, then the shutdown timeout runs."},
  {Opt::kShutdownTimeout, "shutdown-timeout", 0, K::kInteger, "SECONDS", nullptr, nullptr, "", kPet, false, false, kTorch,
   G::kFailure, "Time between asking a worker to stop and SIGKILL; default TORCH_ELASTIC_SHUTDOWN_TIMEOUT, else 30."},
  {Opt::kVirtualLocalRank, "virtual-local-rank", 0, K::kFlag, "", nullptr, nullptr, "", kPet, false, false, kTorch,
   G::kPlacement, "Every worker sees LOCAL_RANK=0 and, through CUDA_VISIBLE_DEVICES, only its own GPU."},
  {Opt::kPrintCompletion, "print-completion", 0, K::kText, "SHELL", nullptr, nullptr, "bash|zsh|tcsh", false, true, true,
   Verb::kTorchrun | Verb::kLaunch, G::kInspect,
   "Print a completion script and exit; for muster itself there is `muster completion`."},
  {Opt::kUseEnv, "use-env", 0, K::kFlag, "", nullptr, nullptr, "", false, false, false, static_cast<Verbs>(Verb::kLaunch),
   G::kProgram, "Give the script no --local-rank argument; it reads LOCAL_RANK."},

  {Opt::kLabel, "label", 0, K::kText, "KIND", nullptr,
   "host:rank with several nodes, rank with several workers, none with one", "none|rank|host:rank", false,
   false, false, kRunOnly, G::kOutput, "The prefix of each line of a worker: nothing, [rank] or [host:rank]."},
  {Opt::kProgressRank, "progress-rank", 0, K::kInteger, "RANK", "0", nullptr, "", false, false, false, kRunOnly, G::kOutput,
   "The rank whose progress bar (lines rewritten with \\r) a terminal shows, and a file as a line now and then."},
  {Opt::kStdin, "stdin", 0, K::kText, "none|RANK|all", nullptr, "the worker's, if there is one only; else none", "", false,
   false, false, kRunOnly, G::kOutput, "Which worker reads what you type or pipe in: none, one rank, or every rank a copy. With several nodes, and for `muster run -`: none."},
  {Opt::kOutputCap, "output-cap", 0, K::kText, "SIZE", "1GiB", nullptr, "", false, false, false, kRunOnly, G::kOutput,
   "Most that is kept of a stream whose reader is too slow, e.g. 512MiB; 0: no limit. Further lines are dropped and counted."},
  {Opt::kReport, "report", 0, K::kText, "FILE", nullptr, nullptr, "", false, false, true, kRunOnly, G::kFailure,
   "Write the failure report there as JSON too: one for all nodes, where the job is started or hosted. An older "
   "one is removed when the job starts."},
  {Opt::kKeepChildren, "keep-children", 0, K::kFlag, "", nullptr, nullptr, "", false, false, false, kRunOnly, G::kFailure,
   "Processes that a worker leaves running when it exits with 0 are not ended, and outlive a job that succeeds. In a round "
   "that fails or is stopped, everything is ended."},
  {Opt::kEvents, "events", 0, K::kText, "FILE", nullptr, nullptr, "", false, false, false, kRunOnly, G::kOutput,
   "Append what happens to the job to this file, one JSON object per line."},
  {Opt::kStore, "store", 0, K::kText, "HOST", nullptr, "agent; worker if torch is older than 1.13", "agent|worker", false,
   false, false, kRunOnly, G::kRendezvous, "The process that hosts the store of the workers: muster itself (agent), or rank 0 (worker)."},
  {Opt::kDryRun, "dry-run", 0, K::kFlag, "", nullptr, nullptr, "", false, false, false, kRunOnly, G::kInspect,
   "Show ranks, cores, GPUs, environment and command of every worker (on several nodes: what is known here), and start "
   "nothing."},
  {Opt::kJson, "json", 0, K::kFlag, "", nullptr, nullptr, "", false, false, false,
   Verb::kRun | Verb::kEnv | Verb::kVersion | Verb::kStatus | Verb::kWhere, G::kInspect,
   "Print JSON (with --dry-run, --env-diff, env, status, where and version)."},
  {Opt::kVerbose, "verbose", 'v', K::kFlag, "", nullptr, nullptr, "", false, false, false, Verb::kRun | Verb::kStore,
   G::kInspect, "Say what is done and why."},
  {Opt::kQuiet, "quiet", 'q', K::kFlag, "", nullptr, nullptr, "", false, false, false, Verb::kRun | Verb::kStore,
   G::kInspect, "Say nothing but warnings, errors and the failure report."},
  {Opt::kPort, "port", 0, K::kInteger, "PORT", "29500", nullptr, "", false, false, false, static_cast<Verbs>(Verb::kStore),
   G::kServer, "TCP port to listen on; 0: a free one, which is printed."},
  {Opt::kHost, "host", 0, K::kText, "any|loopback", "any", nullptr, "any|loopback", false, false, false,
   static_cast<Verbs>(Verb::kStore), G::kServer, "Listen on every interface, or for this machine alone."},

  {Opt::kHosts, "hosts", 0, K::kText, "LIST", nullptr, nullptr, "", false, false, true, kTorch, G::kNodes,
   "Run on these hosts, started from here over ssh: n1,n2:4,gpu[01-03]. Here n2 gets four workers (n2:v100:4 is the same), whatever "
   "--nproc-per-node says. The first host has rank 0. Your own ssh configuration and keys are used; nothing is asked."},
  {Opt::kHostfile, "hostfile", 0, K::kText, "FILE", nullptr, nullptr, "", false, false, true, kTorch, G::kNodes,
   "The same from a file: a host per line as n1, n1:4 or n1 slots=4, the number also as v100:4; # begins a comment."},
  {Opt::kLocalNodes, "local-nodes", 0, K::kInteger, "N", nullptr, nullptr, "", false, false, true, kTorch, G::kNodes,
   "Run N simulated nodes on this machine, each with an agent, log files and a name of its own; they share its cores. For "
   "trying and testing."},
  {Opt::kSsh, "ssh", 0, K::kText, "COMMAND", "ssh", nullptr, "", false, false, true, kTorch, G::kNodes,
   "What reaches the hosts of --hosts and --hostfile: a program, or a command with arguments, as in --ssh 'ssh -F config'. Quotes "
   "hold words together, as in rsync's -e."},
  {Opt::kSshOption, "ssh-option", 0, K::kRepeat, "OPTION", nullptr, nullptr, "", false, false, true, kTorch, G::kNodes,
   "Given to ssh after -o, as in --ssh-option ProxyJump=gate. May be given several times."},
  {Opt::kPushBinary, "push-binary", 0, K::kText, "WHEN", "auto", nullptr, "auto|always|never", false, false, true, kTorch,
   G::kNodes, "Whether hosts get a copy of this muster: those that have none or another version, all, or none. It is checked "
   "and kept in ~/.cache/muster there."},
  {Opt::kJoinTimeout, "join-timeout", 0, K::kNumber, "SECONDS", "600", nullptr, "", false, false, true, kTorch, G::kNodes,
   "How long to wait for enough nodes, and how long a node may be at its --prologue and the like. Then the job ends and names each missing node with what is known of it."},
  {Opt::kLease, "lease", 0, K::kNumber, "SECONDS", "10", nullptr, "", false, false, true, kTorch, G::kFailure,
   "How long a node may be silent before it counts as lost. By then it has killed its own workers. At least 2."},
  {Opt::kGrow, "grow", 0, K::kText, "WHEN", "now", nullptr, "now|restart|never", false, false, true, kTorch, G::kNodes,
   "When nodes that come late, while there is room, join: now (all workers start again, which counts as no restart), with "
   "the next restart, or never."},
  {Opt::kCrashLoop, "crash-loop", 0, K::kInteger, "N", "0", "3", "", false, false, true, kTorch, G::kFailure,
   "End the job when a rank fails the same way within seconds of its start N times in a row, whatever restarts are left; 0: "
   "never. For jobs of several nodes."},
  {Opt::kPortRange, "port-range", 0, K::kText, "A-B", nullptr, nullptr, "", false, false, true, kTorch, G::kNodes,
   "Ports to listen on, if a firewall lets only some through. Without: any free port."},
  {Opt::kInterface, "interface", 0, K::kText, "IF|CIDR", nullptr, nullptr, "", false, false, true, kTorch, G::kNodes,
   "The network between the nodes: an interface (eth0) or addresses (10.0.0.0/8). GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME "
   "are set to it unless you set them."},
  {Opt::kTokenFile, "token-file", 0, K::kText, "FILE", nullptr, nullptr, "", false, false, true, kTorch, G::kRendezvous,
   "If each node runs its own muster: the secret that lets a node in, the same text on all, in a file that only you can read. "
   "MUSTER_TOKEN does the same. Also makes one job of nodes of several schedulers' jobs, if --nnodes is more than one of them "
   "has. Without both: the key in ~/.config/muster/key, which `muster run` makes if there is none."},
  {Opt::kInsecure, "insecure", 0, K::kFlag, "", nullptr, nullptr, "", false, false, true, kTorch, G::kRendezvous,
   "If each node runs its own muster: no secret, as with torchrun. Any process that reaches the port can then disturb the job."},
  {Opt::kMode, "mode", 0, K::kText, "MODE", "auto", nullptr, "auto|fanout|symmetric|local", false, false, true, kTorch, G::kNodes,
   "Instead of what `muster where` finds: fanout (start the nodes of the allocation from here), symmetric (every node runs its "
   "own muster) or local (this node alone)."},
  {Opt::kPrologue, "prologue", 0, K::kRepeat, "COMMAND|FILE", nullptr, nullptr, "", false, false, true, kTorch, G::kEnvironment,
   "Run by bash once on every node before the workers start, which get the environment that it leaves. A file is sourced. A line "
   "that fails ends the job. May be given several times; comes after --modules, --conda and --venv."},
  {Opt::kConda, "conda", 0, K::kText, "NAME|PREFIX", nullptr, nullptr, "", false, false, true, kTorch, G::kEnvironment,
   "Activate this conda environment on every node, once."},
  {Opt::kVenv, "venv", 0, K::kText, "DIR", nullptr, nullptr, "", false, false, true, kTorch, G::kEnvironment,
   "Activate this virtual environment on every node, once."},
  {Opt::kModules, "modules", 0, K::kRepeat, "NAME,…", nullptr, nullptr, "", false, false, true, kTorch, G::kEnvironment,
   "Load these environment modules on every node, once. --module=NAME,… does the same in `muster run`, and --module NAME,… "
   "if it has a comma or a slash (--module NAME, as with torchrun, is a Python module to run). May be given several times."},
  {Opt::kEnv, "env", 0, K::kRepeat, "NAME=VALUE", nullptr, nullptr, "", false, false, true, kTorch, G::kEnvironment,
   "Set a variable for every worker, whatever else sets it; NAME alone hands on the one that is set here. May be given several "
   "times."},
  {Opt::kEnvFile, "env-file", 0, K::kRepeat, "FILE", nullptr, nullptr, "", false, false, true, kTorch, G::kEnvironment,
   "The same from a file, which is read here: NAME=VALUE per line, # for comments. --env comes on top. May be given several times."},
  {Opt::kEnvDiff, "env-diff", 0, K::kFlag, "", nullptr, nullptr, "", false, false, true, kTorch, G::kEnvironment,
   "Set the nodes up and start no program: print how they differ in variables, Python, torch, CUDA, driver and the like; exit "
   "code 1 if they do. With --json: all of it."},
  {Opt::kRecord, "record", 0, K::kText, "DIR", nullptr, nullptr, "", false, false, true, kTorch, G::kEnvironment,
   "Keep in DIR/<job> what the job ran with: environment, command line, versions, git commit and changes, packages, GPUs, the "
   "scheduler's description. What looks like a secret is masked."},
  {Opt::kContainer, "container", 0, K::kText, "IMAGE", nullptr, nullptr, "", false, false, true, kTorch, G::kContainer,
   "Run the workers in a container made of this image: a file or directory, or a name the runtime knows."},
  {Opt::kContainerRuntime, "container-runtime", 0, K::kText, "NAME", nullptr, "the one that is installed", "enroot|apptainer|podman|charliecloud",
   false, false, true, kTorch, G::kContainer, "The program that runs the container."},
  {Opt::kContainerName, "container-name", 0, K::kText, "NAME", nullptr, nullptr, "", false, false, true, kTorch, G::kContainer,
   "A container that is kept: it is used if it exists, and made from --container if not."},
  {Opt::kContainerRoot, "container-root", 0, K::kFlag, "", nullptr, nullptr, "", false, false, true, kTorch, G::kContainer,
   "Workers are root inside."},
  {Opt::kContainerWritable, "container-writable", 0, K::kFlag, "", nullptr, nullptr, "", false, false, true, kTorch, G::kContainer,
   "Workers may write to the container's own files."},
  {Opt::kMount, "mount", 0, K::kRepeat, "SOURCE:TARGET[:ro]", nullptr, nullptr, "", false, false, true, kTorch, G::kContainer,
   "Show a directory of the node inside. The working directory is shown always. May be given several times."},
  {Opt::kContainerWorkdir, "container-workdir", 0, K::kText, "DIR", nullptr, "the one here", "", false, false, true, kTorch,
   G::kContainer, "The directory that workers start in, inside the container."},
  {Opt::kContainerOption, "container-option", 0, K::kRepeat, "OPTION", nullptr, nullptr, "", false, false, true, kTorch,
   G::kContainer, "Handed to the runtime's own command line as it is. May be given several times."},
}};
// clang-format on

constexpr bool in_order() {
  for (size_t i = 0; i < kOptions.size(); ++i)
    if (static_cast<size_t>(kOptions[i].id) != i) return false;
  return true;
}
static_assert(in_order(), "the table and enum Opt list the options in the same order");

constexpr std::array kGroups = {G::kWorkers, G::kNodes,      G::kEnvironment, G::kContainer, G::kProgram, G::kOutput,
                                G::kFailure, G::kRendezvous, G::kPlacement,   G::kInspect,   G::kServer};

}  // namespace

std::span<const Option> options() { return kOptions; }

const Option& option(Opt id) { return kOptions[static_cast<size_t>(id)]; }

std::string dashed(const Option& option) { return "--" + std::string(option.name); }

std::string destination(const Option& option) {
  std::string name(option.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string underscored(const Option& option) {
  return option.name.find('-') == std::string_view::npos ? std::string() : "--" + destination(option);
}

std::vector<std::string> spellings(const Option& option) {
  std::vector<std::string> all;
  if (option.short_flag != 0) all.push_back({'-', option.short_flag});
  all.push_back(dashed(option));
  if (std::string with_underscores = underscored(option); !with_underscores.empty()) all.push_back(with_underscores);
  return all;
}

std::string pet_variable(const Option& option) { return "PET_" + upper_case(destination(option)); }

std::string_view group_title(OptionGroup group) {
  switch (group) {
    case G::kWorkers:
      return "Workers";
    case G::kNodes:
      return "Nodes";
    case G::kEnvironment:
      return "Environment of every node";
    case G::kContainer:
      return "Containers";
    case G::kProgram:
      return "What is run";
    case G::kOutput:
      return "Output and logs";
    case G::kFailure:
      return "Failures and signals";
    case G::kRendezvous:
      return "Rendezvous";
    case G::kPlacement:
      return "Cores and GPUs";
    case G::kInspect:
      return "Information";
    case G::kServer:
      return "Server";
  }
  return "";
}

std::span<const OptionGroup> option_groups() { return kGroups; }

}  // namespace muster::cli
