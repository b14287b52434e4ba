#include "muster/process/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "muster/base/strings.h"

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer's own clone() makes the child forget the threads and locks it knows of, in memory that is ours too:
// from then on it would take what a lock protects for a race. This is glibc's other name for it.
extern "C" int __clone(int (*function)(void*), void* stack, int flags, void* argument, ...);  // NOLINT
constexpr auto kClone = __clone;
#else
constexpr auto kClone = ::clone;
#endif

// The child shares our memory until it executes, so nothing that runs in it may be instrumented: a sanitizer would
// take its system calls for ours.
#define MUSTER_IN_CHILD __attribute__((no_sanitize("address", "thread", "undefined"), noinline))

namespace muster::process {
namespace {

enum class Step { kNone, kParentGone, kDescriptors, kDirectory, kAffinity, kExec };

// Everything the child needs, made ready by the parent: between clone and exec nothing may be allocated. The child
// writes `failed` and `error` into our memory, which is how an exec that fails becomes an error here.
struct Plan {
  const char* program;
  char* const* argv;
  char* const* envp;
  const char* directory;
  PassedFd* passed;  // the child changes the `fd` of those that it moves
  size_t passed_count;
  int highest_place;
  const unsigned long* cpu_mask;
  size_t cpu_mask_bytes;
  bool limits_files;
  rlimit64 open_files;
  bool new_session;
  pid_t parent;
  Step failed = Step::kNone;
  int error = 0;
};

// As the kernel has it; glibc's wrappers may be intercepted by sanitizers and refuse glibc's own two signals.
struct KernelSigaction {
  void* handler = nullptr;  // SIG_DFL
  unsigned long flags = 0;
  void* restorer = nullptr;
  unsigned long mask = 0;
};

struct LinuxDirent {
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[];
};

MUSTER_IN_CHILD int number_of(const char* text) {
  int value = 0;
  for (; *text >= '0' && *text <= '9'; ++text) value = value * 10 + (*text - '0');
  return *text == '\0' ? value : -1;
}

// For Linux before 5.11, whose close_range() cannot mark.
MUSTER_IN_CHILD void mark_all_close_on_exec() {
  long folder = syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (folder < 0) return;
  alignas(LinuxDirent) char buffer[1024];
  for (;;) {
    long size = syscall(SYS_getdents64, folder, buffer, sizeof buffer);
    if (size <= 0) break;
    for (long at = 0; at < size;) {
      auto* entry = reinterpret_cast<LinuxDirent*>(buffer + at);
      int fd = number_of(entry->name);
      if (fd > 2) syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
      at += entry->size;
    }
  }
  syscall(SYS_close, folder);
}

[[noreturn]] MUSTER_IN_CHILD void fail(Plan* plan, Step step) {
  plan->error = errno;
  plan->failed = step;
  for (;;) syscall(SYS_exit_group, 127);
}

MUSTER_IN_CHILD void place_descriptors(Plan* plan) {
  PassedFd* const end = plan->passed + plan->passed_count;
  // First mark everything: what is not put in its place below is closed by exec, whatever number it has.
  if (syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) != 0) mark_all_close_on_exec();
  // A source whose number is a place could be overwritten before its turn: move it above all places.
  for (PassedFd* each = plan->passed; each != end; ++each) {
    if (each->fd > plan->highest_place || each->fd == each->place) continue;
    each->fd = static_cast<int>(syscall(SYS_fcntl, each->fd, F_DUPFD_CLOEXEC, plan->highest_place + 1));
    if (each->fd < 0) fail(plan, Step::kDescriptors);
  }
  for (PassedFd* each = plan->passed; each != end; ++each) {
    long done = each->fd == each->place ? syscall(SYS_fcntl, each->fd, F_SETFD, 0)
                                        : syscall(SYS_dup3, each->fd, each->place, 0);
    if (done < 0) fail(plan, Step::kDescriptors);
  }
}

MUSTER_IN_CHILD int child_main(void* argument) {
  auto* plan = static_cast<Plan*>(argument);
  const KernelSigaction default_action;
  for (int number = 1; number <= 64; ++number) syscall(SYS_rt_sigaction, number, &default_action, nullptr, 8);

  syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  // The parent may have died before the line above: then nobody will ever send that signal.
  if (syscall(SYS_getppid) != plan->parent) fail(plan, Step::kParentGone);
  if (plan->new_session) syscall(SYS_setsid);

  place_descriptors(plan);
  if (plan->directory != nullptr && syscall(SYS_chdir, plan->directory) != 0) fail(plan, Step::kDirectory);
  if (plan->cpu_mask_bytes != 0 && syscall(SYS_sched_setaffinity, 0, plan->cpu_mask_bytes, plan->cpu_mask) != 0) {
    fail(plan, Step::kAffinity);
  }
  if (plan->limits_files) syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &plan->open_files, nullptr);
  const unsigned long no_signals = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &no_signals, nullptr, 8);
  syscall(SYS_execve, plan->program, plan->argv, plan->envp);
  fail(plan, Step::kExec);
}

// Pointers into strings that outlive them, as execve() wants them.
std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> assignments(const Environment& environment) {
  std::vector<std::string> result;
  result.reserve(environment.size());
  for (const auto& [name, value] : environment) {
    std::string& text = result.emplace_back();
    text.reserve(name.size() + value.size() + 1);
    text.append(name).append(1, '=').append(value);
  }
  return result;
}

// What the child gets. If 1 or 2 is not in the list, the child has the caller's.
std::vector<PassedFd> descriptors(const SpawnSpec& spec, int stdin_fd) {
  std::vector<PassedFd> result = spec.passed;
  result.push_back({stdin_fd, STDIN_FILENO});
  if (spec.stdout_fd >= 0) result.push_back({spec.stdout_fd, STDOUT_FILENO});
  if (spec.stderr_fd >= 0) result.push_back({spec.stderr_fd, STDERR_FILENO});
  return result;
}

std::vector<unsigned long> cpu_mask(const std::vector<int>& cpus) {
  constexpr int kBits = sizeof(unsigned long) * CHAR_BIT;
  if (cpus.empty()) return {};
  std::vector<unsigned long> mask(static_cast<size_t>(*std::max_element(cpus.begin(), cpus.end()) / kBits + 1));
  for (int cpu : cpus) mask[static_cast<size_t>(cpu / kBits)] |= 1UL << (cpu % kBits);
  return mask;
}

// "/usr/bin/env" of "#!/usr/bin/env python3"; empty when the file is not a script.
std::string script_interpreter(const std::string& program) {
  Fd fd(open(program.c_str(), O_RDONLY | O_CLOEXEC));
  char head[256];
  ssize_t size = fd ? read(fd.get(), head, sizeof head) : -1;
  if (size < 2) return {};
  std::string_view line(head, static_cast<size_t>(size));
  if (!line.starts_with("#!")) return {};
  line = line.substr(2, line.find('\n') - 2);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return std::string(line.substr(0, line.find_first_of(" \t")));
}

// The file is there, so it is what should run it that is not.
Error missing_interpreter(const std::string& program, std::string interpreter) {
  Error error{ErrorKind::kNotExecutable, {}, "correct its first line"};
  std::string what = fmt::format("its interpreter {} does not exist", interpreter);
  if (interpreter.empty()) {
    what = "its loader does not exist on this machine";
    error.hint = "build it for this system";
  } else if (interpreter.ends_with('\r')) {
    interpreter.pop_back();
    what = fmt::format("its lines end as on Windows, so that its interpreter reads as {}\\r", interpreter);
    error.hint = fmt::format("sed -i 's/\\r$//' {}", shell_quote(program));
  }
  error.message = fmt::format("cannot execute {}: {}", program, what);
  return error;
}

Error exec_error(const SpawnSpec& spec, int error) {
  const std::string& program = spec.program;
  bool exists = access(program.c_str(), F_OK) == 0;
  std::string interpreter = exists ? script_interpreter(program) : std::string();
  if (error == ENOENT && exists) return missing_interpreter(program, interpreter);
  Error result = system_error(error, fmt::format("cannot execute {}", program));
  if (error == ENOENT || error == ENOTDIR) result.kind = ErrorKind::kNotFound;
  if (error == EACCES || error == ENOEXEC || error == ETXTBSY || error == EPERM) {
    result.kind = ErrorKind::kNotExecutable;
  }
  if (error == EACCES && access(program.c_str(), X_OK) != 0) {
    result.hint = fmt::format("chmod +x {}", shell_quote(program));
  }
  if (error == ENOEXEC) result.hint = "it is neither a program for this machine nor a script that starts with #!";
  if (error == E2BIG) result.hint = "arguments and environment together are too large";
  return result;
}

Error failure(const SpawnSpec& spec, const Plan& plan) {
  switch (plan.failed) {
    case Step::kDescriptors:
      return system_error(plan.error, fmt::format("cannot pass its descriptors to {}", spec.program));
    case Step::kDirectory:
      return system_error(plan.error, fmt::format("cannot change to the directory {}", spec.directory));
    case Step::kAffinity:
      return system_error(plan.error, fmt::format("cannot bind {} to its CPUs", spec.program));
    default:
      return exec_error(spec, plan.error);
  }
}

// Signals stay blocked from before clone() until the child has default dispositions: a handler of ours that ran in
// the child would run on our memory.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t old_;
};

void reap(pid_t pid) {
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

Result<Child> spawn(const SpawnSpec& spec) {
  rlimit64 open_files{};
  const bool limits_files = spec.open_files != 0 && ::getrlimit64(RLIMIT_NOFILE, &open_files) == 0;
  open_files.rlim_cur = std::min<rlim64_t>(spec.open_files, open_files.rlim_max);
  std::vector<std::string> arguments = spec.argv;
  std::vector<std::string> environment = assignments(spec.environment);
  std::vector<char*> argv = pointers(arguments);
  std::vector<char*> envp = pointers(environment);
  std::vector<unsigned long> mask = cpu_mask(spec.cpus);
  Fd null(spec.stdin_fd < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1);
  if (spec.stdin_fd < 0 && !null) return system_error(errno, "cannot open /dev/null");
  std::vector<PassedFd> passed = descriptors(spec, null ? null.get() : spec.stdin_fd);
  Plan plan{.program = spec.program.c_str(),
            .argv = argv.data(),
            .envp = envp.data(),
            .directory = spec.directory.empty() ? nullptr : spec.directory.c_str(),
            .passed = passed.data(),
            .passed_count = passed.size(),
            .highest_place = std::ranges::max(passed, {}, &PassedFd::place).place,
            .cpu_mask = mask.data(),
            .cpu_mask_bytes = mask.size() * sizeof(unsigned long),
            .limits_files = limits_files,
            .open_files = open_files,
            .new_session = spec.new_session,
            .parent = getpid()};

  alignas(64) char stack[16 << 10];
  int pidfd = -1;
  pid_t pid;
  {
    BlockSignals blocked;
    pid = kClone(child_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &plan, &pidfd);
  }
  if (pid < 0) return no_process_error(errno, fmt::format("cannot start {}", spec.program));
  Child child{pid, Fd(pidfd)};
  if (plan.failed != Step::kNone) {
    reap(pid);
    return failure(spec, plan);
  }
  if (!child.pidfd) {  // before Linux 5.2 the flag is ignored
    kill(pid, SIGKILL);
    reap(pid);
    return Error{ErrorKind::kSystem, "this kernel has no process descriptors", "Linux 5.4 or newer is needed"};
  }
  return child;
}

std::optional<ExitStatus> try_reap(const Child& child) {
  siginfo_t info{};
  int result;
  do {
    result = waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG);
  } while (result != 0 && errno == EINTR);
  if (result != 0 || info.si_pid == 0) return std::nullopt;
  if (info.si_code == CLD_EXITED) return ExitStatus{.code = info.si_status};
  return ExitStatus{.signal = info.si_status};
}

bool signal_group(pid_t leader, int signal) { return kill(-leader, signal) == 0 || errno != ESRCH; }

}  // namespace muster::process
