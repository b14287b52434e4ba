#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/log.h"
#include "muster/base/result.h"
#include "muster/job/spec.h"
#include "muster/process/binding.h"

namespace muster::job {

// Who asked for a value. kSurroundings: no user did; a scheduler or preset variables say it.
enum class Origin : uint8_t { kDefault, kSurroundings, kVariable, kOption };

// The option that a value belongs to, for messages and where "not given" matters.
struct Source {
  std::string_view option_name;  // "nnodes"
  Origin origin = Origin::kDefault;

  bool given() const { return origin != Origin::kDefault; }
  std::string option() const;             // "--nnodes"
  Error about(const Error& error) const;  // with "--nnodes: " in front, or "PET_NNODES: " if that variable said it
};

template <typename T>
struct Asked : Source {
  T value;

  explicit Asked(std::string_view name, T usual = {}) : Source{name}, value(std::move(usual)) {}
  const T& operator*() const { return value; }
  const T* operator->() const { return &value; }
  // Takes what the surroundings say.
  void fill(T said) {
    value = std::move(said);
    origin = Origin::kSurroundings;
  }
  bool operator==(const Asked& other) const { return value == other.value && origin == other.origin; }
};

struct NodeRange {
  int min = 1, max = 1;
  bool is_range = false;  // written as one, also as 2:2

  std::string text() const;  // "2", "1:4"
  bool operator==(const NodeRange&) const = default;
};

// --nproc-per-node
enum class Countable : uint8_t { kNumber, kCpu, kGpu, kXpu, kAuto };
struct WorkerCount {
  Countable what = Countable::kNumber;
  int number = 1;

  std::string text() const;  // "4", "gpu"
  bool operator==(const WorkerCount&) const = default;
};

// -r and -t. Masks are torchrun's: 0 none, 1 stdout, 2 stderr, 3 both.
struct StreamMasks {
  std::optional<int> all = 0;  // none: `by_rank` says it
  std::map<int, int> by_rank;
  bool operator==(const StreamMasks&) const = default;
};

// --stdin: none, all, or one rank.
struct StdinWish {
  enum class Kind : uint8_t { kNone, kAll, kRank } kind = Kind::kNone;
  int rank = 0;
  bool operator==(const StdinWish&) const = default;
};

// --rdzv-conf, as far as muster obeys it.
struct RendezvousConf {
  std::optional<Duration> timeout;  // of the static backend
  std::optional<Duration> join_timeout, last_call, keep_alive_interval;
  std::optional<int> keep_alive_attempts;
  std::optional<bool> is_host;
  bool file_store = false;
  bool operator==(const RendezvousConf&) const = default;
};

// One of --hosts.
struct NamedHost {
  std::string name;
  std::optional<int> workers;
  bool operator==(const NamedHost&) const = default;
};

// --container and what goes with it.
struct ContainerWish {
  Asked<std::string> image{"container"}, name{"container-name"}, runtime{"container-runtime"};
  Asked<std::string> directory{"container-workdir"};
  Asked<std::vector<std::string>> mounts{"mount"};
  std::vector<std::string> options;
  bool root = false, writable = false;

  bool given() const { return image.given() || name.given(); }
  bool operator==(const ContainerWish&) const = default;
};

enum class Backend : uint8_t { kStatic, kC10d };
enum class Mode : uint8_t { kAuto, kFanOut, kSymmetric, kLocal };
enum class Growth : uint8_t { kNow, kRestart, kNever };
enum class PushBinary : uint8_t { kAuto, kAlways, kNever };

// NAME=VALUE, or NAME alone: the value of the process where the job was asked for.
using Assignments = std::vector<std::pair<std::string, std::optional<std::string>>>;

// What was asked for, whichever front end was asked: every value is typed, and valid as far as that can be known without
// looking at a machine. Says nothing about this machine. Plain data; travels to the agents (encode()).
struct Request {  // NOLINT(clang-analyzer-optin.performance.Padding): by theme
  Flavor flavor = Flavor::kMuster;
  bool dry_run = false;
  bool env_diff = false;
  LogLevel log_threshold = LogLevel::kInfo;

  // What is run.
  std::vector<std::string> words;  // PROGRAM and its arguments
  bool module = false, no_python = false, run_path = false;
  bool inject_local_rank = false;         // muster launch without --use-env
  std::string hosts_before_program;       // --hosts, if it stands right before PROGRAM: for a hint
  std::vector<std::string> command_line;  // as it was typed, for --record alone; else empty

  // Workers.
  Asked<WorkerCount> nproc{"nproc-per-node"};
  std::string role = "default";
  bool virtual_local_rank = false;
  std::optional<process::Binding> binding;

  // Nodes.
  Asked<NodeRange> nnodes{"nnodes"};
  Mode mode = Mode::kAuto;
  Asked<std::vector<NamedHost>> hosts{"hosts"};
  Asked<std::string> hostfile{"hostfile"};
  Asked<int> local_nodes{"local-nodes"};
  Asked<std::string> ssh{"ssh", "ssh"};
  std::vector<std::string> ssh_options;
  PushBinary push = PushBinary::kAuto;
  Asked<Duration> join_timeout{"join-timeout", std::chrono::seconds(600)};
  Asked<Duration> lease{"lease", std::chrono::seconds(10)};
  Growth grow = Growth::kNow;
  PortRange ports;
  Asked<std::string> interface { "interface" };

  // Rendezvous.
  bool standalone = false;
  Asked<Backend> backend{"rdzv-backend"};
  Asked<std::string> rdzv_id{"rdzv-id", "none"};
  Asked<RendezvousConf> conf{"rdzv-conf"};
  Asked<int> node_rank{"node-rank", 0};
  // Names of machines are judged where they are used: in an allocation, none of them is.
  Asked<std::string> endpoint{"rdzv-endpoint"}, master_addr{"master-addr", "127.0.0.1"}, local_addr{"local-addr"};
  Asked<std::optional<int>> master_port{"master-port"};
  bool port_may_change = false;  // if master_port is taken, on a job of one node
  std::optional<StoreHost> store;
  Asked<std::string> token_file{"token-file"};
  bool insecure = false;

  // Environment.
  std::vector<std::string> modules;
  Asked<std::string> conda{"conda"}, venv{"venv"};
  std::vector<std::string> prologues;
  std::vector<std::string> env_files;
  Assignments env;
  Asked<std::string> record{"record"};
  ContainerWish container;

  // Output.
  std::string log_dir;
  Asked<StreamMasks> redirects{"redirects"}, tee{"tee"};
  Asked<std::optional<std::set<int>>> console_ranks{"local-ranks-filter"};
  std::vector<std::string> stdout_filters, stderr_filters;
  std::string prefix_template;
  std::optional<LabelKind> label;
  Asked<int> progress_rank{"progress-rank", 0};
  Asked<std::optional<StdinWish>> stdin_wish{"stdin"};
  uint64_t output_cap = uint64_t{1} << 30;
  std::string events_file;
  bool events_on_console = false;

  // Failures.
  int max_restarts = 0;
  int crash_loop = 0;
  Duration shutdown_timeout = std::chrono::seconds(30);
  std::vector<int> signals;
  std::string signals_text;
  bool keep_children = false;
  Asked<std::string> report{"report"};

  // What `accelerate launch` wants besides.
  Environment worker_variables;  // for every worker, over what it inherits
  std::optional<int> processes;  // of all nodes together; the first nodes get the remainder
  bool ranked = true;            // false: one worker without any of torchrun's variables
  Assignments accelerate;        // its settings: each node makes `worker_variables` of them; empty: another front end

  bool ours() const { return flavor == Flavor::kMuster; }
  // Whether the nodes are named: they are started from here.
  bool names_nodes() const { return hosts.given() || hostfile.given() || local_nodes.given(); }
  bool operator==(const Request&) const = default;
};

// "70000 is out of range; write 0 to 65535"
Error out_of_range(std::string_view value, int64_t min, int64_t max);

// The request as bytes, for processes of the same version of muster. Errors: it is none, is of another version of this
// format, or has values that no request has.
inline constexpr uint32_t kRequestVersion = 1;
std::string encode(const Request& request);
Result<Request> decode_request(std::string_view bytes);

}  // namespace muster::job
