#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::cli {

// The verbs. Each is one bit, so that an option can name all verbs that have it.
enum class Verb : uint16_t {
  kRun = 1 << 0,
  kTorchrun = 1 << 1,
  kLaunch = 1 << 2,
  kStore = 1 << 3,
  kEnv = 1 << 4,
  kCompletion = 1 << 5,
  kMan = 1 << 6,
  kVersion = 1 << 7,
  kHelp = 1 << 8,
  kStatus = 1 << 9,
  kAgent = 1 << 10,
  kWhere = 1 << 11,
  kAccelerate = 1 << 12,
};
using Verbs = uint16_t;
constexpr Verbs operator|(Verb a, Verb b) { return static_cast<Verbs>(a) | static_cast<Verbs>(b); }
constexpr Verbs operator|(Verbs a, Verb b) { return static_cast<Verbs>(a | static_cast<Verbs>(b)); }
constexpr bool contains(Verbs verbs, Verb verb) { return (verbs & static_cast<Verbs>(verb)) != 0; }

enum class OptionKind : uint8_t {
  kText,
  kInteger,  // as Python's int() reads it
  kNumber,   // as Python's float() reads it
  kList,     // comma-separated; ",," is a literal comma
  kRepeat,   // may be given several times; every value counts
  kFlag,     // takes no value
};

enum class OptionGroup : uint8_t {
  kWorkers,
  kNodes,
  kEnvironment,
  kContainer,
  kProgram,
  kOutput,
  kFailure,
  kRendezvous,
  kPlacement,
  kInspect,
  kServer
};

// Names of the options, in the order of the table.
enum class Opt : uint8_t {
  kHelp,
  kNnodes,
  kNprocPerNode,
  kRdzvBackend,
  kRdzvEndpoint,
  kRdzvId,
  kRdzvConf,
  kStandalone,
  kMaxRestarts,
  kMonitorInterval,
  kStartMethod,
  kEventLogHandler,
  kRole,
  kModule,
  kNoPython,
  kRunPath,
  kLogDir,
  kRedirects,
  kTee,
  kLogLinePrefixTemplate,
  kLocalRanksFilter,
  kDuplicateStdoutFilters,
  kDuplicateStderrFilters,
  kNodeRank,
  kMasterAddr,
  kMasterPort,
  kLocalAddr,
  kLogsSpecs,
  kNumaBinding,
  kSignalsToHandle,
  kShutdownTimeout,
  kVirtualLocalRank,
  kPrintCompletion,
  kUseEnv,
  kHelpAll,
  kLabel,
  kProgressRank,
  kStdin,
  kOutputCap,
  kReport,
  kKeepChildren,
  kEvents,
  kStore,
  kDryRun,
  kJson,
  kVerbose,
  kQuiet,
  kPort,
  kHost,
  kHosts,
  kHostfile,
  kLocalNodes,
  kSsh,
  kSshOption,
  kPushBinary,
  kJoinTimeout,
  kLease,
  kGrow,
  kCrashLoop,
  kPortRange,
  kInterface,
  kTokenFile,
  kInsecure,
  kMode,
  kPrologue,
  kConda,
  kVenv,
  kModules,
  kEnv,
  kEnvFile,
  kEnvDiff,
  kRecord,
  kContainer,
  kContainerRuntime,
  kContainerName,
  kContainerRoot,
  kContainerWritable,
  kMount,
  kContainerWorkdir,
  kContainerOption,
  kCount,
};

// One option: everything that the parser, --help, the man page, completion and PET_* know about it.
struct Option {
  Opt id;
  std::string_view name;  // with dashes; "--node_rank" is accepted for "node-rank"
  char short_flag;        // 0: none
  OptionKind kind;
  std::string_view metavar;
  const char* default_value;  // null: unset
  const char* run_default;    // of `muster run`, in words; null: the same
  std::string_view choices;   // "a|b"; empty: anything
  bool reads_environment;     // PET_<NAME>
  bool immediate;             // prints something and exits, at any position
  bool exact;                 // torchrun 2.13 does not have it, so it must not make torchrun's abbreviations ambiguous:
                              // `muster run` accepts an abbreviation that no other option has, `muster torchrun` none
  Verbs verbs;
  OptionGroup group;
  std::string_view help;  // its first sentence is a summary: --help and completion show that alone
  bool common = false;    // among the few that --help shows; --help-all shows every option

  bool takes_value() const { return kind != OptionKind::kFlag; }
  bool in(Verb verb) const { return contains(verbs, verb); }
};

// The table: torchrun's options in torchrun's order, which its messages show, then muster's own.
std::span<const Option> options();
const Option& option(Opt id);

// "--node-rank" / "--node_rank" (empty if the name has no dash) / "PET_NODE_RANK" / "NODE_RANK"
std::string dashed(const Option& option);
std::string underscored(const Option& option);
std::string pet_variable(const Option& option);
std::string destination(const Option& option);
// All forms in which it may be typed: "-t", "--node-rank", "--node_rank".
std::vector<std::string> spellings(const Option& option);

std::string_view group_title(OptionGroup group);
std::span<const OptionGroup> option_groups();

}  // namespace muster::cli
