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
constexpr bool kCommon = true;

using K = OptionKind;
using G = OptionGroup;

// clang-format off
constexpr std::array<Option, static_cast<size_t>(Opt::kCount)> kOptions = {{
  {Opt::kHelp, "help", 'h', K::kFlag, "", nullptr, nullptr, "", false, true, false, kEvery, G::kInspect,
   "Show help and exit."},
  {Opt::kNnodes, "nnodes", 0, K::kText, "N|MIN:MAX", "1:1", nullptr, "", kPet, false, false, kTorch, G::kNodes,
   "Number of nodes, or a range. With --hosts, this many hosts work at the same time (all, if it is not given) and the "
   "others are spares. Without --hosts, run muster on every node with the same --nnodes; the nodes meet at --master-addr "
   "or --rdzv-endpoint.", kCommon},
  {Opt::kNprocPerNode, "nproc-per-node", 0, K::kText, "N|gpu|cpu|xpu|auto", "1",
   "one per GPU given to this process, else 1", "", kPet, false, false, kTorch, G::kWorkers,
   "Workers per node. A number (also v100:4, as Slurm may write it); gpu or xpu: one per device, an error if there is "
   "none; cpu: one per CPU in the affinity mask; auto: devices if there are any, else CPUs.", kCommon},
  {Opt::kRdzvBackend, "rdzv-backend", 0, K::kText, "static|c10d", "static", nullptr, "", kPet, false, false, kTorch,
   G::kRendezvous,
   "How nodes find each other if each node runs its own muster. static: you give each node its --node-rank, and all "
   "--nnodes nodes (MAX of a range) must come. c10d: nodes get ranks in the order in which they come, and their number "
   "may change within the range. `muster run` uses c10d for a range without --node-rank. etcd is not supported: use c10d."},
  {Opt::kRdzvEndpoint, "rdzv-endpoint", 0, K::kText, "HOST[:PORT]", "", nullptr, "", kPet, false, false, kTorch,
   G::kRendezvous,
   "Address at which the nodes meet. The machine that has this name or address hosts the job. Put an IPv6 address in "
   "brackets. static needs the port, and workers get it as MASTER_PORT; c10d uses 29400 if you give no port."},
  {Opt::kRdzvId, "rdzv-id", 0, K::kText, "ID", "none", "a new one", "", kPet, false, false, kTorch, G::kRendezvous,
   "Name of the job. Workers get it as TORCHELASTIC_RUN_ID, and the name of the log directory starts with it. If each "
   "node runs its own muster, give the same name on all nodes."},
  {Opt::kRdzvConf, "rdzv-conf", 0, K::kText, "KEY=VALUE,…", "", nullptr, "", kPet, false, false, kTorch, G::kRendezvous,
   "More rendezvous settings. c10d: join_timeout (600), last_call_timeout (how long to wait for more nodes than MIN: 3; "
   "in muster torchrun 30), keep_alive_interval times keep_alive_max_attempt (the same as --lease), is_host (1: this node "
   "hosts the job, 0: it does not). static: timeout (the same as --join-timeout). torchrun's close_timeout, "
   "heartbeat_timeout and read_timeout are accepted and have no effect."},
  {Opt::kStandalone, "standalone", 0, K::kFlag, "", nullptr, nullptr, "", kPet, false, false, kTorch, G::kRendezvous,
   "Run on this node only, on a free port and with a new id. --rdzv-backend, --rdzv-endpoint and --rdzv-id are ignored. "
   "Outside a scheduler `muster run` does this by default."},
  {Opt::kMaxRestarts, "max-restarts", 0, K::kInteger, "N", "0", nullptr, "", kPet, false, false, kTorch, G::kFailure,
   "How often to start all workers again after a failure. The number holds for the whole job; a lost node does not count. "
   "The logs of every round are kept.", kCommon},
  {Opt::kMonitorInterval, "monitor-interval", 0, K::kNumber, "SECONDS", "0.1", nullptr, "", kPet, false, false, kTorch,
   G::kFailure,
   "Accepted for compatibility with torchrun. muster sees at once when a worker exits, and does not poll."},
  {Opt::kStartMethod, "start-method", 0, K::kText, "METHOD", "spawn", nullptr, "spawn|fork|forkserver", kPet, false,
   false, kTorch, G::kProgram,
   "Accepted for compatibility with torchrun. Each worker is always a new process."},
  {Opt::kEventLogHandler, "event-log-handler", 0, K::kText, "null|console", "null", nullptr, "", kPet, false, false,
   kTorch, G::kOutput,
   "console: write the events of the job to stderr, as JSON lines. See also --events."},
  {Opt::kRole, "role", 0, K::kText, "NAME", "default", nullptr, "", kPet, false, false, kTorch, G::kWorkers,
   "Role of the workers. They get it as ROLE_NAME, and torchrun's line prefix shows it."},
  {Opt::kModule, "module", 'm', K::kFlag, "", nullptr, nullptr, "", kPet, false, false, kTorch, G::kProgram,
   "PROGRAM is a Python module. Each worker is python -u -m PROGRAM.", kCommon},
  {Opt::kNoPython, "no-python", 0, K::kFlag, "", nullptr, nullptr, "", kPet, false, false, kTorch, G::kProgram,
   "Execute PROGRAM itself, even if it looks like a Python script. muster searches for it in PATH."},
  {Opt::kRunPath, "run-path", 0, K::kFlag, "", nullptr, nullptr, "", kPet, false, false, kTorch, G::kProgram,
   "Run the script with Python's runpy.run_path, even if it is executable. Its process ends as those of multiprocessing "
   "do: exit handlers run and streams are flushed, but the interpreter is not torn down. A process group that the script "
   "did not destroy then does no harm."},
  {Opt::kLogDir, "log-dir", 0, K::kText, "DIR", nullptr, nullptr, "", kPet, false, false, kTorch, G::kOutput,
   "Directory for log files. One node: DIR/<id>_<random>/attempt_<n>/<local rank>/{stdout.log,stderr.log,error.json}. "
   "Several nodes: DIR/<id>_<job>/r<round>/<host>/<rank>.{out,err}, on each node. `muster run` writes both streams to "
   "files and shows them too, unless -r or -t say otherwise; <id> starts with the scheduler's job; and DIR/latest is a "
   "link to the newest directory. /dev/null: no files.", kCommon},
  {Opt::kRedirects, "redirects", 'r', K::kText, "MASK|RANK:MASK,…", "0", nullptr, "", kPet, false, false, kTorch,
   G::kOutput,
   "Streams that go to log files only. 0: none, 1: stdout, 2: stderr, 3: both; or for each local rank, as in 0:3,1:2."},
  {Opt::kTee, "tee", 't', K::kText, "MASK|RANK:MASK,…", "0", nullptr, "", kPet, false, false, kTorch, G::kOutput,
   "Streams that go to log files and to the console. The values are those of --redirects."},
  {Opt::kLogLinePrefixTemplate, "log-line-prefix-template", 0, K::kText, "TEXT", "", nullptr, "", kPet, false, true,
   kTorch, G::kOutput,
   "Prefix of each line. It may contain ${role_name}, ${local_rank}, ${rank} and ${hostname}. The variable "
   "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE does the same."},
  {Opt::kLocalRanksFilter, "local-ranks-filter", 0, K::kText, "RANK,…", "", nullptr, "", kPet, false, false, kTorch,
   G::kOutput,
   "Show only these local ranks on the console. Log files are not affected."},
  {Opt::kDuplicateStdoutFilters, "duplicate-stdout-filters", 0, K::kList, "TEXT,…", nullptr, nullptr, "", kPet, false,
   false, kTorch, G::kOutput,
   "Copy lines of tee'd stdout that contain one of these texts to filtered_stdout.log. Write ,, for a comma."},
  {Opt::kDuplicateStderrFilters, "duplicate-stderr-filters", 0, K::kList, "TEXT,…", nullptr, nullptr, "", kPet, false,
   false, kTorch, G::kOutput,
   "The same for stderr and filtered_stderr.log."},
  {Opt::kNodeRank, "node-rank", 0, K::kInteger, "N", "0", nullptr, "", kPet, false, false, kTorch, G::kRendezvous,
   "Number of this node in a static rendezvous, from 0. Node 0 hosts the job and has the first ranks. Ignored by c10d and "
   "with --hosts."},
  {Opt::kMasterAddr, "master-addr", 0, K::kText, "HOST", "127.0.0.1", nullptr, "", kPet, false, false, kTorch,
   G::kRendezvous,
   "Address of node 0, where the nodes of a static rendezvous meet. Workers get it as MASTER_ADDR. With --hosts muster "
   "finds it itself."},
  {Opt::kMasterPort, "master-port", 0, K::kInteger, "PORT", nullptr,
   "a free port in each round; 29500 if each node runs its own muster", "", kPet, false, false, kTorch, G::kRendezvous,
   "Port of the store on node 0. Workers get it as MASTER_PORT. If the port is taken, the job fails; if muster starts all "
   "nodes itself, it uses a free port instead."},
  {Opt::kLocalAddr, "local-addr", 0, K::kText, "HOST", nullptr, nullptr, "", kPet, false, false, kTorch, G::kRendezvous,
   "Address of this node, if muster finds the wrong one. Ignored in jobs on several nodes: use --interface there."},
  {Opt::kLogsSpecs, "logs-specs", 0, K::kText, "NAME", nullptr, nullptr, "", false, false, false, kTorch, G::kOutput,
   "Not supported: it names a Python class inside torchrun. Use --log-dir, -r, -t and --log-line-prefix-template."},
  {Opt::kNumaBinding, "numa-binding", 0, K::kText, "MODE", nullptr, nullptr, "node|socket|exclusive|core-complex", false,
   false, false, kTorch, G::kPlacement,
   "Bind each worker to CPUs near its GPU. node: all CPUs of the NUMA node; socket: all CPUs of the socket; exclusive: a "
   "share of the NUMA node for this worker only; core-complex: CPUs that share a last-level cache. --dry-run shows the "
   "result. numactl is not needed."},
  {Opt::kSignalsToHandle, "signals-to-handle", 0, K::kText, "NAME,…", "SIGTERM,SIGINT,SIGHUP,SIGQUIT", nullptr, "", kPet,
   false, false, kTorch, G::kFailure,
   "Signals that end the job. muster passes the signal to every worker; then the shutdown timeout starts."},
  {Opt::kShutdownTimeout, "shutdown-timeout", 0, K::kInteger, "SECONDS", nullptr, nullptr, "", kPet, false, false,
   kTorch, G::kFailure,
   "Seconds between asking a worker to stop and SIGKILL. Without: TORCH_ELASTIC_SHUTDOWN_TIMEOUT if it is set, else 30."},
  {Opt::kVirtualLocalRank, "virtual-local-rank", 0, K::kFlag, "", nullptr, nullptr, "", kPet, false, false, kTorch,
   G::kPlacement,
   "Every worker sees LOCAL_RANK=0 and, through CUDA_VISIBLE_DEVICES, only its own GPU."},
  {Opt::kPrintCompletion, "print-completion", 0, K::kText, "SHELL", nullptr, nullptr, "bash|zsh|tcsh", false, true, true,
   Verb::kTorchrun | Verb::kLaunch, G::kInspect,
   "Print a completion script and exit. For muster itself use `muster completion`."},
  {Opt::kUseEnv, "use-env", 0, K::kFlag, "", nullptr, nullptr, "", false, false, false,
   static_cast<Verbs>(Verb::kLaunch), G::kProgram,
   "Do not give the script a --local-rank argument. It reads LOCAL_RANK instead."},
  {Opt::kHelpAll, "help-all", 0, K::kFlag, "", nullptr, nullptr, "", false, true, true, Verb::kRun | Verb::kAccelerate,
   G::kInspect,
   "Show every option and exit."},

  {Opt::kLabel, "label", 0, K::kText, "KIND", nullptr,
   "host:rank with several nodes, rank with several workers, none with one", "none|rank|host:rank", false, false, false,
   kRunOnly, G::kOutput,
   "Prefix of each line of a worker: nothing, [rank] or [host:rank]."},
  {Opt::kProgressRank, "progress-rank", 0, K::kInteger, "RANK", "0", nullptr, "", false, false, false, kRunOnly,
   G::kOutput,
   "Rank whose progress bar is shown. A progress bar is a line that is rewritten with \\r. A terminal shows it live; a "
   "file gets a line now and then."},
  {Opt::kStdin, "stdin", 0, K::kText, "none|RANK|all", nullptr, "the worker, if there is only one; else none", "", false,
   false, false, kRunOnly, G::kOutput,
   "Worker that reads what you type or pipe in. none, one rank, or all: each rank gets a copy. With several nodes, and "
   "for `muster run -`, only none is possible."},
  {Opt::kOutputCap, "output-cap", 0, K::kText, "SIZE", "1GiB", nullptr, "", false, false, false, kRunOnly, G::kOutput,
   "How much output to keep if its reader is too slow, as in 512MiB. Further lines are dropped and counted. 0: no limit."},
  {Opt::kReport, "report", 0, K::kText, "FILE", nullptr, nullptr, "", false, false, true, kRunOnly, G::kFailure,
   "Write the failure report to this file too, as JSON. There is one report for all nodes, on the machine that starts or "
   "hosts the job. An older file is removed when the job starts."},
  {Opt::kKeepChildren, "keep-children", 0, K::kFlag, "", nullptr, nullptr, "", false, false, false, kRunOnly, G::kFailure,
   "Do not end processes that a worker leaves running when it exits with 0. They outlive a job that succeeds. In a round "
   "that fails or is stopped, everything is ended."},
  {Opt::kEvents, "events", 0, K::kText, "FILE", nullptr, nullptr, "", false, false, false, kRunOnly, G::kOutput,
   "Append the events of the job to this file, one JSON object per line."},
  {Opt::kStore, "store", 0, K::kText, "HOST", nullptr, "agent; worker if torch is older than 1.13", "agent|worker",
   false, false, false, kRunOnly, G::kRendezvous,
   "Process that hosts the store of the workers. agent: muster itself, worker: rank 0."},
  {Opt::kDryRun, "dry-run", 0, K::kFlag, "", nullptr, nullptr, "", false, false, false, kRunOnly, G::kInspect,
   "Show what would be started, and start nothing. Shows ranks, cores, GPUs, environment and command of every worker; "
   "with several nodes, what is known here.", kCommon},
  {Opt::kJson, "json", 0, K::kFlag, "", nullptr, nullptr, "", false, false, false,
   Verb::kRun | Verb::kEnv | Verb::kVersion | Verb::kStatus | Verb::kWhere, G::kInspect,
   "Print JSON. With --dry-run and --env-diff, and for the verbs env, status, where and version."},
  {Opt::kVerbose, "verbose", 'v', K::kFlag, "", nullptr, nullptr, "", false, false, false, Verb::kRun | Verb::kStore,
   G::kInspect,
   "Say what muster does and why."},
  {Opt::kQuiet, "quiet", 'q', K::kFlag, "", nullptr, nullptr, "", false, false, false, Verb::kRun | Verb::kStore,
   G::kInspect,
   "Print only warnings, errors and the failure report."},
  {Opt::kPort, "port", 0, K::kInteger, "PORT", "29500", nullptr, "", false, false, false,
   static_cast<Verbs>(Verb::kStore), G::kServer,
   "TCP port to listen on; 0 for any free port, which muster prints."},
  {Opt::kHost, "host", 0, K::kText, "any|loopback", "any", nullptr, "any|loopback", false, false, false,
   static_cast<Verbs>(Verb::kStore), G::kServer,
   "Listen on every interface, or for this machine only."},

  {Opt::kHosts, "hosts", 0, K::kText, "LIST", nullptr, nullptr, "", false, false, true, kTorch, G::kNodes,
   "Run on these hosts, over ssh. In n1,n2:4,gpu[01-03] n2 gets four workers (n2:v100:4 is the same), whatever "
   "--nproc-per-node says. The first host has rank 0. muster uses your ssh configuration and keys, and does not ask for a "
   "password.", kCommon},
  {Opt::kHostfile, "hostfile", 0, K::kText, "FILE", nullptr, nullptr, "", false, false, true, kTorch, G::kNodes,
   "Run on the hosts in this file, over ssh. One host per line, as n1, n1:4 or n1 slots=4 (v100:4 means 4); # starts a "
   "comment."},
  {Opt::kLocalNodes, "local-nodes", 0, K::kInteger, "N", nullptr, nullptr, "", false, false, true, kTorch, G::kNodes,
   "Run N simulated nodes on this machine, to try things out. Each has its own agent, log files and name; they share the "
   "cores."},
  {Opt::kSsh, "ssh", 0, K::kText, "COMMAND", "ssh", nullptr, "", false, false, true, kTorch, G::kNodes,
   "Command that reaches the hosts of --hosts and --hostfile. A program, or a command with arguments, as in --ssh 'ssh -F "
   "config'. Quotes keep words together, as in rsync's -e."},
  {Opt::kSshOption, "ssh-option", 0, K::kRepeat, "OPTION", nullptr, nullptr, "", false, false, true, kTorch, G::kNodes,
   "Passed to ssh after -o, as in --ssh-option ProxyJump=gate. May be given several times."},
  {Opt::kPushBinary, "push-binary", 0, K::kText, "WHEN", "auto", nullptr, "auto|always|never", false, false, true,
   kTorch, G::kNodes,
   "Which hosts get a copy of this muster. auto: those that have none or another version; always: all; never: none. The "
   "copy is checked and kept in ~/.cache/muster on the host."},
  {Opt::kJoinTimeout, "join-timeout", 0, K::kNumber, "SECONDS", "600", nullptr, "", false, false, true, kTorch, G::kNodes,
   "Seconds to wait for enough nodes. The set-up of a node (--prologue and so on) may take this long too. After that the "
   "job ends and says what is known about each missing node."},
  {Opt::kLease, "lease", 0, K::kNumber, "SECONDS", "10", nullptr, "", false, false, true, kTorch, G::kFailure,
   "Seconds that a node may be silent before it counts as lost. By then it has killed its own workers. At least 2."},
  {Opt::kGrow, "grow", 0, K::kText, "WHEN", "now", nullptr, "now|restart|never", false, false, true, kTorch, G::kNodes,
   "When nodes that come late join, if there is room. now: at once, and all workers start again, which does not count as "
   "a restart; restart: with the next restart; never: not at all."},
  {Opt::kCrashLoop, "crash-loop", 0, K::kInteger, "N", "0", "3", "", false, false, true, kTorch, G::kFailure,
   "End the job if a rank fails the same way N times in a row, each time within seconds of its start. It then ends even "
   "if restarts are left. 0: never."},
  {Opt::kPortRange, "port-range", 0, K::kText, "A-B", nullptr, nullptr, "", false, false, true, kTorch, G::kNodes,
   "Ports to listen on, if a firewall blocks the others. Without: any free port."},
  {Opt::kInterface, "interface", 0, K::kText, "IF|CIDR", nullptr, nullptr, "", false, false, true, kTorch, G::kNodes,
   "Network between the nodes: an interface (eth0) or addresses (10.0.0.0/8). muster sets GLOO_SOCKET_IFNAME and "
   "NCCL_SOCKET_IFNAME to it, unless you have set them."},
  {Opt::kTokenFile, "token-file", 0, K::kText, "FILE", nullptr, nullptr, "", false, false, true, kTorch, G::kRendezvous,
   "File with the secret that lets a node join, if each node runs its own muster. The text is the same on all nodes, and "
   "only you may read the file. The variable MUSTER_TOKEN does the same. The secret also joins the nodes of several "
   "scheduler jobs into one job, if --nnodes is larger than one of them. Without: the key in ~/.config/muster/key, which "
   "`muster run` creates if there is none."},
  {Opt::kInsecure, "insecure", 0, K::kFlag, "", nullptr, nullptr, "", false, false, true, kTorch, G::kRendezvous,
   "Use no secret, as torchrun does, if each node runs its own muster. Any process that reaches the port can then disturb "
   "the job."},
  {Opt::kMode, "mode", 0, K::kText, "MODE", "auto", nullptr, "auto|fanout|symmetric|local", false, false, true, kTorch,
   G::kNodes,
   "How to start the job, instead of what `muster where` shows. fanout: start the nodes of the allocation from here; "
   "symmetric: every node runs its own muster; local: this node only."},
  {Opt::kPrologue, "prologue", 0, K::kRepeat, "COMMAND|FILE", nullptr, nullptr, "", false, false, true, kTorch,
   G::kEnvironment,
   "Command or file that bash runs once on every node before the workers start. Workers get the environment that it "
   "leaves. A file is sourced. If a line fails, the job ends. May be given several times; runs after --modules, --conda "
   "and --venv."},
  {Opt::kConda, "conda", 0, K::kText, "NAME|PREFIX", nullptr, nullptr, "", false, false, true, kTorch, G::kEnvironment,
   "Activate this conda environment on every node.", kCommon},
  {Opt::kVenv, "venv", 0, K::kText, "DIR", nullptr, nullptr, "", false, false, true, kTorch, G::kEnvironment,
   "Activate this Python virtual environment on every node."},
  {Opt::kModules, "modules", 0, K::kRepeat, "NAME,…", nullptr, nullptr, "", false, false, true, kTorch, G::kEnvironment,
   "Load these environment modules on every node. In `muster run`, --module=NAME,… means the same, and so does --module "
   "NAME,… with a comma or a slash in it; any other --module NAME is a Python module to run, as in torchrun. May be given "
   "several times."},
  {Opt::kEnv, "env", 0, K::kRepeat, "NAME=VALUE", nullptr, nullptr, "", false, false, true, kTorch, G::kEnvironment,
   "Set a variable for every worker. It overrides every other setting of the variable. NAME alone passes on the value "
   "that is set here. May be given several times.", kCommon},
  {Opt::kEnvFile, "env-file", 0, K::kRepeat, "FILE", nullptr, nullptr, "", false, false, true, kTorch, G::kEnvironment,
   "Set the variables in this file for every worker. The file is read here: one NAME=VALUE per line, # starts a comment. "
   "--env overrides it. May be given several times."},
  {Opt::kEnvDiff, "env-diff", 0, K::kFlag, "", nullptr, nullptr, "", false, false, true, kTorch, G::kEnvironment,
   "Print how the nodes differ, and start no program. The nodes are set up first; then muster compares variables, Python, "
   "torch, CUDA, driver and more. Exit code 1 if they differ. With --json: everything that was found."},
  {Opt::kRecord, "record", 0, K::kText, "DIR", nullptr, nullptr, "", false, false, true, kTorch, G::kEnvironment,
   "Keep a record of what the job ran with, in DIR/<job>. It has the environment, command line, versions, git commit and "
   "changes, packages, GPUs, and the scheduler's description of the job. Values that look like secrets are masked."},
  {Opt::kContainer, "container", 0, K::kText, "IMAGE", nullptr, nullptr, "", false, false, true, kTorch, G::kContainer,
   "Run the workers in a container. IMAGE is a file, a directory, or a name that the runtime knows.", kCommon},
  {Opt::kContainerRuntime, "container-runtime", 0, K::kText, "NAME", nullptr, "the first that is installed",
   "enroot|apptainer|podman|charliecloud", false, false, true, kTorch, G::kContainer,
   "Program that runs the container."},
  {Opt::kContainerName, "container-name", 0, K::kText, "NAME", nullptr, nullptr, "", false, false, true, kTorch,
   G::kContainer,
   "Name of a container to keep. It is used if it exists, and made from --container if not."},
  {Opt::kContainerRoot, "container-root", 0, K::kFlag, "", nullptr, nullptr, "", false, false, true, kTorch,
   G::kContainer,
   "Workers are root inside the container."},
  {Opt::kContainerWritable, "container-writable", 0, K::kFlag, "", nullptr, nullptr, "", false, false, true, kTorch,
   G::kContainer,
   "Workers may write to the container's own files."},
  {Opt::kMount, "mount", 0, K::kRepeat, "SOURCE:TARGET[:ro]", nullptr, nullptr, "", false, false, true, kTorch,
   G::kContainer,
   "Make a directory of the node visible in the container. The working directory is always visible. May be given several "
   "times."},
  {Opt::kContainerWorkdir, "container-workdir", 0, K::kText, "DIR", nullptr, "the current directory", "", false, false,
   true, kTorch, G::kContainer,
   "Directory inside the container in which workers start."},
  {Opt::kContainerOption, "container-option", 0, K::kRepeat, "OPTION", nullptr, nullptr, "", false, false, true, kTorch,
   G::kContainer,
   "Passed unchanged to the runtime's command line. May be given several times."},
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
