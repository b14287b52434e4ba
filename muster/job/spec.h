#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/container/plan.h"
#include "muster/job/token.h"
#include "muster/process/binding.h"
#include "muster/process/spawn.h"

namespace muster::job {

// Whose habits to follow where torchrun's and ours differ.
enum class Flavor {
  kMuster,    // muster run
  kTorchrun,  // muster torchrun
  kLaunch,    // muster launch (python -m torch.distributed.launch); torchrun's habits plus the injected argument
};

enum class Stream { kStdout = 0, kStderr = 1 };

// A program that the job brings along, since the nodes cannot find it by its name: see plan/script.h.
struct Script {
  std::string file;  // where each node keeps it while the job runs, in a directory for it alone
  std::string text;
};

// What one worker executes. Python's string.Template is applied to argv from `template_from` on, with the one name
// local_rank: "$local_rank", "${local_rank}", "$$".
struct Command {
  std::string program;            // resolved path
  std::vector<std::string> argv;  // argv[0] included
  size_t template_from = 0;
  std::optional<size_t> local_rank_position;  // where `<local_rank_flag>=<n>` is inserted (muster launch)
  std::string local_rank_flag;                // "--local-rank", or "--local_rank" for torch < 2.0
  std::optional<Script> script;               // what argv runs, if the job brings it along
  std::string entrypoint;                     // what the report calls it: the script as typed, the module, the program
};

enum class LabelKind { kNone, kRank, kHostRank };

// Where a worker's stream goes. Masks are torchrun's: 0 none, 1 stdout, 2 stderr, 3 both.
struct OutputSpec {
  LabelKind label = LabelKind::kNone;
  std::string prefix_template;   // torchrun's ${role_name} ${local_rank} ${rank} ${hostname}; wins over label
  std::string log_dir;           // as given; empty: none asked for
  std::map<int, int> redirects;  // by local rank; a rank that is absent has 0
  std::map<int, int> tee;
  std::optional<std::set<int>> console_ranks;  // --local-ranks-filter: only these local ranks reach the console
  std::vector<std::string> stdout_filters;     // --duplicate-stdout-filters
  std::vector<std::string> stderr_filters;
  int progress_rank = 0;                                // whose \r progress is shown, when there are several workers
  Duration progress_period = std::chrono::seconds(10);  // in a file: after so long without a line
  uint64_t cap = uint64_t{1} << 30;                     // bytes a spool or log file may grow to; 0: no limit
  std::array<int, 2> columns{};  // by Stream: of the launcher's terminal, where one shows it; 0: none does
  // torchrun without -r/-t: streams that are neither filed nor tee'd are the launcher's own, untouched.
  bool inherit_plain_streams = false;
};

struct StdinSpec {
  enum class Kind { kNone, kRank, kAll, kInherit } kind = Kind::kNone;  // kInherit: everyone shares ours (torchrun)
  int rank = 0;
};

enum class StoreHost { kAgent, kWorker };

struct PortRange {
  uint16_t first = 0, last = 0;  // 0: whatever the system chooses
  bool operator==(const PortRange&) const = default;
};

// How this node belongs to a job of several.
struct Membership {
  Token token;
  std::vector<std::string> coordinators;  // "10.0.0.1:4711", "[fe80::1]:4711" or "n1:29400", tried in order
  std::optional<int> rank;                // --node-rank of a static rendezvous
  std::optional<int> position;            // in the launcher's list of hosts
  int min_nodes = 0, max_nodes = 0;       // as this node's command line says; 0: it was not asked
  Duration join_timeout = std::chrono::seconds(600);
  // No spare was declared: if this node was in no round, it ends with an error, although the job has ended.
  bool must_take_part = false;
  bool open_to_all = false;        // there is no secret in the token: whoever reaches the port can join
  bool hosts_coordinator = false;  // in this very process
  bool output_to_launcher = false;
  bool store_on_coordinator_port = false;  // static: MASTER_PORT is where everybody meets
  PortRange ports;
  std::string interface;  // --interface: a name or CIDR; empty: any
};

// Everything the command line decided; the agent adds nothing of its own but what it measures. Plain data.
struct JobSpec {
  Flavor flavor = Flavor::kMuster;
  Command command;
  int workers = 1;
  bool ranked = true;                    // false: one worker that gets none of torchrun's variables
  std::string host;                      // what this node is called
  std::optional<Membership> membership;  // none: the job has this node alone
  std::string role = "default";
  std::string run_id = "none";
  std::string scheduler_job;          // as the scheduler's commands name it: "4711", "4711_3"; empty: none
  std::string rdzv_backend = "c10d";  // as events name it: "c10d" or "static"
  int max_restarts = 0;
  int crash_loop = 0;  // so many rounds in a row that fail the same way at their start end the job; 0: never
  Duration shutdown_timeout = std::chrono::seconds(30);
  std::vector<int> signals_to_handle;
  std::string signals_text;  // TORCHELASTIC_SIGNALS_TO_HANDLE
  bool virtual_local_rank = false;
  bool keep_children = false;  // what workers that exit with 0 leave running outlives a job that succeeds
  std::optional<process::Binding> binding;
  uint64_t open_files = 0;  // soft limit of a worker, where ours was raised; 0: as ours

  StoreHost store_host = StoreHost::kAgent;
  std::string master_addr;    // given out as MASTER_ADDR
  uint16_t master_port = 0;   // 0: a free one each round
  std::string torch_version;  // of the workers' Python, for what depends on it; empty: unknown

  Environment environment;  // of the launcher, with the overlay that holds for all workers (OMP_NUM_THREADS …)
  std::optional<container::Plan> container;  // none: workers run on the node itself
  OutputSpec output;
  StdinSpec stdin_spec;
  std::string report_file;  // --report; empty: none
  std::string events_file;  // --events; empty: none
  bool events_on_console = false;
  LogLevel log_threshold = LogLevel::kInfo;  // of what muster itself says: --quiet, --verbose
};

}  // namespace muster::job
