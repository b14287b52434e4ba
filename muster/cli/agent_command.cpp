#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "muster/agent/supervisor.h"
#include "muster/agent/traces.h"
#include "muster/agent/warden.h"
#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/fd.h"
#include "muster/base/version.h"
#include "muster/cli/accelerate_plan.h"
#include "muster/cli/agent_fetch.h"
#include "muster/cli/commands.h"
#include "muster/cli/env_diff.h"
#include "muster/cli/job_record.h"
#include "muster/cli/planning.h"
#include "muster/cluster/description.h"
#include "muster/output/log_layout.h"
#include "muster/plan/node_environment.h"

namespace muster::cli {
namespace {

constexpr auto kDescriptionTime = std::chrono::seconds(30);
constexpr auto kFetchTime = std::chrono::seconds(30);
constexpr auto kComplaintTime = std::chrono::seconds(5);

// Only what has an end that can be seen when the launcher is gone.
Result<void> check_stdin() {
  struct stat status {};
  if (::fstat(STDIN_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode))) return {};
  return Error{ErrorKind::kUsage, "muster agent is started by muster itself", "write muster run --hosts LIST PROGRAM"};
}

Result<void> read_exactly(int fd, std::string& text, size_t size, Deadline deadline) {
  size_t have = text.size();
  text.resize(size);
  while (have < size) {
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, deadline.poll_timeout());
    if (ready == 0) return Error{ErrorKind::kTimeout, "nothing came on stdin", {}};
    if (ready < 0) continue;  // stopped and continued: read() would wait without the deadline
    const ssize_t got = ::read(fd, text.data() + have, size - have);
    if (got == 0) return Error{ErrorKind::kPeer, "the launcher is gone", {}};
    if (got > 0) have += static_cast<size_t>(got);
    if (got < 0 && errno != EINTR && errno != EAGAIN) return system_error(errno, "stdin");
  }
  return {};
}

Result<cluster::Description> checked(std::string_view encoded) {
  MUSTER_TRY(cluster::Description description, cluster::decode_description(encoded));
  if (description.muster_version != version())
    return Error{ErrorKind::kPeer,
                 fmt::format("the launcher is muster {} and this is {}", description.muster_version, version()),
                 "install the same on every host, or let it be sent: --push-binary"};
  return description;
}

Result<cluster::Description> read_description(int fd) {
  MUSTER_TRY_VOID(check_stdin());
  const std::string greeting = cluster::agent_greeting();
  MUSTER_TRY_VOID(write_all(STDOUT_FILENO, greeting.data(), greeting.size()));
  const Deadline deadline = Deadline::in(kDescriptionTime);
  std::string text;
  MUSTER_TRY_VOID(read_exactly(fd, text, cluster::kDescriptionHead, deadline));
  MUSTER_TRY(size_t size, cluster::description_size(text));
  if (size > text.size()) MUSTER_TRY_VOID(read_exactly(fd, text, size, deadline));
  return checked(text);
}

// srun numbers its tasks: what this one says can then be told to come from this node.
void say_where(const std::string& name) {
  std::string greeting = cluster::agent_greeting();
  greeting.insert(greeting.size() - 1, " " + name);
  (void)write_all(STDOUT_FILENO, greeting.data(), greeting.size());
}

// `launcher`: becomes the connection that hangs up when the launcher is gone.
Result<cluster::Description> fetch(const FetchWords& words, Fd& launcher) {
  if (words.name.empty()) say_where(own_name(environment_variable));
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (words.temporary && !error) std::filesystem::remove(program, error);
  MUSTER_TRY(rendezvous::Fetched fetched, fetch_description(words, Deadline::in(kFetchTime)));
  launcher = std::move(fetched.connection);
  return checked(fetched.description);
}

void use_directory(const std::string& directory) {
  if (::chdir(directory.c_str()) == 0) return;
  const int why = errno;
  const auto home = environment_variable("HOME");
  const std::string instead = home && ::chdir(home->c_str()) == 0 ? *home : "/";
  if (instead == "/") (void)!::chdir("/");
  ::setenv("PWD", instead.c_str(), 1);
  const std::string text =
      fmt::format("muster: warning: {}; working in {}\n", system_error(why, directory).message, instead);
  (void)write_all(STDERR_FILENO, text.data(), text.size());
}

// What is of this node alone; all else the launcher has said.
void say_notes(const plan::JobPlan& plan) {
  for (const plan::Note& note : plan.notes) {
    const std::string text = fmt::format("{}{}: {}\n", log_prefix(note.level), plan.job().host, note.text);
    (void)write_all(STDERR_FILENO, text.data(), text.size());
  }
}

Result<plan::JobPlan> plan_part(const cluster::Description& description, job::Request& request, const Fd& launcher) {
  plan::Assignment assignment;
  MUSTER_TRY(assignment.token, job::Token::parse(description.token));
  assignment.endpoints = description.endpoints;
  assignment.run_id = description.run_id;
  assignment.host = description.host;
  assignment.position = description.position;
  assignment.workers = description.workers;
  assignment.script = description.script;
  if (!request.accelerate.empty()) MUSTER_TRY_VOID(complete_accelerate(request, assignment));
  plan::Facts facts = own_facts();
  return make_plan(request, facts, {.agent = &assignment, .launcher = launcher.get()});
}

// The launcher stays in reach where it was on stdin; whoever reads stdin from now on reads nothing.
Result<void> move_stdin(Fd& launcher) {
  if (!launcher) launcher.reset(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!launcher) return system_error(errno, "stdin");
  Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing || ::dup2(nothing.get(), STDIN_FILENO) < 0) return system_error(errno, "stdin");
  return set_nonblocking(launcher.get(), true);
}

bool has_hung_up(const Fd& launcher) {
  pollfd watched{launcher.get(), POLLRDHUP, 0};
  return ::poll(&watched, 1, 0) == 1;
}

// Until this node is a member, the end of stdin, or of the connection that the description came on, is all that tells
// of a launcher that died. Later the control connection does, and a way to the launcher that breaks (ssh) says nothing.
class LauncherWatch final : public agent::Companion {
 public:
  LauncherWatch(net::EventLoop& loop, Fd launcher, bool fetched, const agent::WardenLink& link,
                const agent::ScratchNote& scratch)
      : loop_(loop), launcher_(std::move(launcher)), fetched_(fetched), link_(link), scratch_(scratch) {
    loop_.watch(launcher_.get(), EPOLLIN, [this](uint32_t) { look(); });
  }
  ~LauncherWatch() override { end(); }

  void finish(Deadline /*deadline*/) override {}
  // sshd would tell the launcher that nobody reads its stdin.
  void joined() override {
    if (fetched_) end();
  }

 private:
  void end() {
    if (launcher_) loop_.unwatch(launcher_.get());
    launcher_.reset();
  }
  void look() {
    char bytes[4096];
    const ssize_t got = ::read(launcher_.get(), bytes, sizeof bytes);
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
    if (link_.terms()) return loop_.unwatch(launcher_.get());
    // There are no workers yet, and nobody to say anything to.
    output::remove_empty_directories(scratch_.directory());
    std::_Exit(kMusterFailed);
  }

  net::EventLoop& loop_;
  Fd launcher_;
  const bool fetched_;
  const agent::WardenLink& link_;
  const agent::ScratchNote& scratch_;
};

// `launcher`: its end tells of the launcher's. `fetched`: it is a connection.
int run_part(job::JobSpec& job, Fd launcher, bool fetched, const std::function<void()>& at_end) {
  agent::ScratchNote scratch;
  agent::WardenLink link;
  auto make_watch = [&](net::EventLoop& loop, output::Console&) -> Result<std::unique_ptr<agent::Companion>> {
    return std::unique_ptr<agent::Companion>(
        std::make_unique<LauncherWatch>(loop, std::move(launcher), fetched, link, scratch));
  };
  return agent::run_under_warden(
      [&](int warden_pid, int warden_pidfd) {
        return agent::run_job(job, {.warden_pid = warden_pid,
                                    .warden_pidfd = warden_pidfd,
                                    .scratch = scratch,
                                    .link = &link,
                                    .make_companion = make_watch});
      },
      {.after_kill = [&] { agent::remove_traces(job, scratch); },
       .link = &link,
       .token = job.membership->token,
       .launcher = fetched ? 0 : ::getppid(),  // or what is at the end of its way here: sshd
       .at_end = at_end,
       .keep_children = job.keep_children,
       .after_fork =
           [&] {
             if (fetched) launcher.reset();
           }});
}

}  // namespace

int agent_command(const std::vector<std::string>& words) {
  auto fetch_words = parse_fetch(words);
  if (!fetch_words) return fail(fetch_words.error());
  const bool from_scheduler = fetch_words->has_value();
  Fd launcher;
  auto description = from_scheduler ? fetch(**fetch_words, launcher) : read_description(STDIN_FILENO);
  if (!description) return fail(description.error());

  const Environment& sent = description->environment;
  const Environment own = own_environment();
  use_environment(from_scheduler ? plan::environment_of_task(sent, own, net::hostname(), description->position)
                                 : plan::environment_of_node(sent, own));
  use_directory(description->directory);
  if (auto moved = move_stdin(launcher); !moved) return fail(moved.error());
  auto request = job::decode_request(description->request);
  if (!request) return fail(request.error());
  auto plan = plan_part(*description, *request, launcher);
  if (!plan && from_scheduler && !has_hung_up(launcher))
    tell_launcher(**fetch_words, plan.error(), Deadline::in(kComplaintTime));
  if (!plan) return fail(plan.error());
  say_notes(*plan);
  plan->job().output.columns = description->columns;
  if (plan->env_diff) run_fingerprint(plan->job());
  const auto at_end = start_record(*plan, request->command_line);
  return run_part(plan->job(), std::move(launcher), from_scheduler, at_end);
}

}  // namespace muster::cli
