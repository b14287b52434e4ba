#include "muster/agent/worker_signals.h"

#include <algorithm>
#include <csignal>

#include "muster/process/descendants.h"
#include "muster/process/proc.h"
#include "muster/process/spawn.h"

namespace muster::agent {
namespace {

// Neither can be passed on by anybody.
bool must_reach_all(int signal) { return signal == SIGKILL || signal == SIGSTOP || signal == SIGCONT; }

void signal_all_but_leader(pid_t leader, int signal) {
  bool reached = false;
  for (const process::ProcStat& process : process::all_processes()) {
    if (process.group != leader || process.pid == leader || process.ended()) continue;
    reached |= ::kill(process.pid, signal) == 0;
  }
  if (!reached) process::signal_group(leader, signal);  // there is nobody inside yet
}

// The first process of the worker that is in another session than the runtime's: everything else inside is below it.
pid_t leader_inside(pid_t runtime, const std::string& marker) {
  for (pid_t pid : process::descendants()) {
    auto stat = process::read_proc_stat(pid);
    if (stat && stat->session != runtime && process::belongs_to(pid, runtime, marker)) return stat->session;
  }
  return 0;
}

void signal_inside(pid_t runtime, const std::string& marker, int signal) {
  const pid_t inside = leader_inside(runtime, marker);
  if (inside == 0 || !process::signal_group(inside, signal)) process::signal_group(runtime, signal);
}

}  // namespace

void signal_worker(const job::JobSpec& job, pid_t leader, const std::string& marker, int signal) {
  using container::SignalWay;
  const SignalWay way = job.container ? container::signal_way(job.container->spec.kind) : SignalWay::kGroup;
  switch (way) {
    case SignalWay::kGroupButLeader:
      if (!must_reach_all(signal)) return signal_all_but_leader(leader, signal);
      break;
    case SignalWay::kLeaderInside:
      return signal_inside(leader, marker, signal);
    case SignalWay::kGroup:
      break;
  }
  process::signal_group(leader, signal);
}

process::ExitStatus status_of_worker(const job::JobSpec& job, process::ExitStatus status) {
  constexpr int kSignalCodes = 128;
  if (!job.container || !container::says_signals_as_codes(job.container->spec.kind)) return status;
  if (status.signal == 0 && status.code > kSignalCodes && status.code <= kSignalCodes + SIGRTMAX)
    return {.signal = status.code - kSignalCodes};
  return status;
}

}  // namespace muster::agent
