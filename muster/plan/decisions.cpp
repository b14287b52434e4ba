#include "muster/plan/known.h"

// What --verbose says of a job on this node alone: what was decided, and why.
namespace muster::plan {
namespace {

using job::Request;

std::string counted(int number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string why_so_many(const Request& request, const Known& known) {
  const process::GpuCount gpus = known.gpus();
  const std::string seen = gpus.source.empty() ? "" : fmt::format(" ({})", gpus.source);
  if (!request.nproc.given())
    return gpus.count > 0 ? fmt::format("one per GPU{}", seen) : fmt::format("one, as there is no GPU{}", seen);
  std::string given = fmt::format("--nproc-per-node {}", request.nproc->text());
  if (request.nproc->what == job::Countable::kNumber) return given;
  return request.nproc->what != job::Countable::kCpu && gpus.count > 0
             ? fmt::format("{}, {}{}", given, counted(gpus.count, "GPU"), seen)
             : fmt::format("{}, {}", given, counted(known.get<int>(Topic::kAffinityCpus), "CPU"));
}

std::string why_so_many_threads(const std::string& threads, int workers, const Known& known) {
  const std::string* before = known.environment().find("OMP_NUM_THREADS");
  const std::string among = counted(workers, "worker");
  if (before == nullptr) return fmt::format("{} for {}", counted(known.get<int>(Topic::kUsableCores), "core"), among);
  return *before == threads ? "as it was set" : fmt::format("the {} that PBS has set are for {}", *before, among);
}

}  // namespace

void say_decisions(const Request& request, const job::JobSpec& job, const Known& known, Notes& notes) {
  auto say = [&](std::string text) { notes.add(LogLevel::kDebug, std::move(text)); };
  say(fmt::format("{} on {}: {}", counted(job.workers, "worker"), job.host, why_so_many(request, known)));
  say(fmt::format("program: {}{}", job.command.program,
                  job.torch_version.empty() ? "" : fmt::format(" (PyTorch {})", job.torch_version)));
  say(fmt::format("store: {} hosts it at {}, {}", job.store_host == job::StoreHost::kAgent ? "muster" : "rank 0",
                  job.master_addr, job.master_port == 0 ? "on a free port" : fmt::format("port {}", job.master_port)));
  const std::string& logs = job.output.log_dir;
  say(logs.empty() || logs == "/dev/null" ? "log files: none (--log-dir DIR keeps them)" : "log files: in " + logs);
  if (const std::string* threads = job.environment.find("OMP_NUM_THREADS"))
    say(fmt::format("OMP_NUM_THREADS={}: {}", *threads, why_so_many_threads(*threads, job.workers, known)));
}

}  // namespace muster::plan
