#include "muster/report/voice.h"

#include <csignal>

#include "muster/base/fd.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/process/signals.h"
#include "muster/report/words.h"

namespace muster::report {
namespace {

std::string workers_text(int count) { return count == 1 ? "1 worker" : fmt::format("{} workers", count); }

}  // namespace

std::string_view second_signal_hint(int signal) {
  return signal == SIGINT ? "; press Ctrl-C again to kill them now" : "";
}

void Voice::signal_received(int signal, int workers, Duration grace) {
  if (torchrun_) {
    console_.log().warn("Received {} death signal, shutting down workers", signal);
  } else if (workers == 0) {
    console_.log().info("{}: ending", process::signal_name(signal));
  } else {
    console_.log().info("{}: stopping {}, SIGKILL in {}{}", process::signal_name(signal), workers_text(workers),
                        seconds_text(grace), second_signal_hint(signal));
  }
}

void Voice::killing_all(int workers) { console_.log().warn("second SIGINT: killing {}", workers_text(workers)); }

void Voice::closing(int pid, int signal) {
  if (torchrun_) console_.log().warn("Sending process {} closing signal {}", pid, process::signal_name(signal));
}

void Voice::killing(int rank, int pid, int signal, Duration grace) {
  if (torchrun_) {
    console_.log().warn("Unable to shutdown process {} via {}, forcefully exiting via 9", pid, signal);
  } else {
    console_.log().warn("rank {} (pid {}) still runs {} after {}: SIGKILL", rank, pid, seconds_text(grace),
                        process::signal_name(signal));
  }
}

void Voice::unkillable(int rank, int pid) {
  console_.log().error("rank {} (pid {}) did not end after SIGKILL; it is left running", rank, pid);
}

void Voice::timer_expired(int rank, int pid, const std::string& scope, int signal) {
  console_.log().warn("rank {} (pid {}) let its timer '{}' expire: {}", rank, pid, printable(scope),
                      process::signal_name(signal));
}

void Voice::failed(const WorkerOutcome& root, const std::string& program) {
  if (!torchrun_) return;
  console_.log().error("failed (exitcode: {}) local_rank: {} (pid: {}) of binary: {}", root.status.popen_code(),
                       root.local_rank, root.pid, program);
}

void Voice::restarting(const std::string& decision, const WorkerOutcome& root) {
  if (!torchrun_) console_.log().info("{}: rank {} failed ({})", decision, root.rank, failure_in_short(root));
}

void Voice::ending_children(int rank, const std::vector<pid_t>& pids) {
  constexpr size_t kNamed = 5;
  std::vector<std::string> names;
  for (pid_t pid : pids) {
    if (names.size() == kNamed) break;
    auto name = read_file(fmt::format("/proc/{}/comm", pid));
    if (name) names.push_back(fmt::format("{} (pid {})", printable(trim(*name)), pid));
  }
  if (names.empty()) return;  // all have ended meanwhile
  const std::string more = pids.size() > kNamed ? fmt::format(" and {} more", pids.size() - kNamed) : "";
  console_.log().warn("ended {} that rank {} left running: {}{}; --keep-children lets them live",
                      pids.size() == 1 ? "1 process" : fmt::format("{} processes", pids.size()), rank,
                      join(names, ", "), more);
}

void Voice::left_behind(size_t count) {
  if (count > 0) console_.log().error("{} processes of the job could not be ended", count);
}

}  // namespace muster::report
