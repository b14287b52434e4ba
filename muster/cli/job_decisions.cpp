#include "muster/cli/job_planner.h"
#include "muster/job/worker_env.h"

// What --verbose says of a job on this node alone: what was decided, and why.
namespace muster::cli {
namespace {

std::string counted(int number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

}  // namespace

std::string Planner::why_so_many() const {
  const process::GpuCount gpus = this->gpus();
  const std::string seen = gpus.source.empty() ? "" : fmt::format(" ({})", gpus.source);
  if (!parsed_.given(Opt::kNprocPerNode))
    return gpus.count > 0 ? fmt::format("one per GPU{}", seen) : fmt::format("one, as there is no GPU{}", seen);
  std::string given = fmt::format("--nproc-per-node {}", text(Opt::kNprocPerNode));
  if (plan_.workers_given) return given;
  return text(Opt::kNprocPerNode) != "cpu" && gpus.count > 0
             ? fmt::format("{}, {}{}", given, counted(gpus.count, "GPU"), seen)
             : fmt::format("{}, {}", given, counted(facts_.affinity_cpus(), "CPU"));
}

std::string Planner::why_so_many_threads(const std::string& threads) const {
  const std::string* before = environment_.find("OMP_NUM_THREADS");
  const std::string workers = counted(job_.workers, "worker");
  if (before == nullptr) return fmt::format("{} for {}", counted(facts_.usable_cores(), "core"), workers);
  return *before == threads ? "as it was set" : fmt::format("the {} that PBS has set are for {}", *before, workers);
}

void Planner::say_decisions() {
  if (!ours_ || !alone() || plan_.env_diff || job_.log_threshold > LogLevel::kDebug) return;
  auto say = [&](std::string text) { note(LogLevel::kDebug, std::move(text)); };
  say(fmt::format("{} on {}: {}", counted(job_.workers, "worker"), job_.host, why_so_many()));
  say(fmt::format("program: {}{}", job_.command.program,
                  job_.torch_version.empty() ? "" : fmt::format(" (PyTorch {})", job_.torch_version)));
  say(fmt::format("store: {} hosts it at {}, {}", job_.store_host == job::StoreHost::kAgent ? "muster" : "rank 0",
                  job_.master_addr,
                  job_.master_port == 0 ? "on a free port" : fmt::format("port {}", job_.master_port)));
  const std::string& logs = job_.output.log_dir;
  say(logs.empty() || logs == "/dev/null" ? "log files: none (--log-dir DIR keeps them)" : "log files: in " + logs);
  if (const std::string* threads = job_.environment.find("OMP_NUM_THREADS"))
    say(fmt::format("OMP_NUM_THREADS={}: {}", *threads, why_so_many_threads(*threads)));
}

}  // namespace muster::cli
