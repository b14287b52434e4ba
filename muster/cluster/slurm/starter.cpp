#include "muster/cluster/slurm/starter.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <list>
#include <map>
#include <set>

#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/base/version.h"
#include "muster/cluster/link.h"
#include "muster/cluster/slurm/step.h"
#include "muster/cluster/slurm/words.h"
#include "muster/process/python.h"

namespace muster::cluster::slurm {
namespace {

constexpr size_t kKeptErrors = 4 << 10;
constexpr size_t kMostUnclaimed = 64;                        // lines of a task whose node is not known yet
constexpr Duration kDevicesTime = std::chrono::seconds(10);  // for scontrol; without it srun decides
constexpr Duration kLastWordTime = std::chrono::seconds(5);  // of a step that nobody is left in
// srun tells of a task's end and of its last words on two connections, in either order.
constexpr Duration kOrderTime = std::chrono::milliseconds(500);
constexpr Duration kEndTime = std::chrono::seconds(2);  // for srun to see that its tasks have ended

// One srun: the agents of some nodes.
struct Step {
  std::shared_ptr<Link> link;
  std::set<int> positions;                            // that it is still responsible for
  std::map<std::string, int> by_name;                 // positions
  std::map<int, int> by_task;                         // positions, as far as tasks have said where they run
  std::map<int, std::vector<std::string>> unclaimed;  // lines of others
  std::string output;                                 // of stdout, not a whole line yet
  std::string errors;                                 // what srun itself said
  bool sends_program = false;
  net::EventLoop::TimerId timer = 0;  // once it is deserted
};
using StepId = std::list<Step>::iterator;

// One start on one host.
struct Place {
  Host host;
  bool push = false;
  bool asked = false, joined = false;
  std::string last_line;       // of the agent
  std::string cannot_run;      // why the program at our path does not do
  std::optional<StepId> step;  // none: it waits for the end of this turn
  std::optional<TaskEnd> end;  // its last words may still come
  net::EventLoop::TimerId timer = 0;
};

class SlurmStarter final : public Starter {
 public:
  SlurmStarter(net::EventLoop& loop, Options options, const process::Environment& environment, Handlers handlers)
      : loop_(loop),
        options_(std::move(options)),
        environment_(srun_environment(environment)),
        asks_for_devices_(may_have_devices(environment)),
        handlers_(std::move(handlers)) {}
  ~SlurmStarter() override;
  SlurmStarter(const SlurmStarter&) = delete;
  SlurmStarter& operator=(const SlurmStarter&) = delete;

  void start(int position, const Host& host, std::string description) override;
  void asked(int position) override;
  void joined(int position) override;
  void abandon(int position) override;

 private:
  Result<std::string> find(const std::string& program) const;
  void launch_soon();
  void launch_waiting();
  Result<void> ask_for_devices();
  std::vector<std::string> names_of(const std::vector<int>& positions);
  void launch(const std::vector<int>& positions, bool push);
  Result<void> launch_step(const std::vector<int>& positions, const std::string& devices, bool push);

  void output(StepId step, std::string_view bytes);
  void greeted(StepId step, int task, const Greeting& greeting);
  void claim(StepId step, int task, int position);
  void said(StepId step, std::string_view line);
  void task_said(int position, std::string_view text);
  void task_ended(StepId step, const TaskEnd& end);
  void agent_ended(int position);
  void step_ended(StepId step, const process::ExitStatus& status);
  void timed_out(int position);

  void release(int position);
  void try_with_program(int position);
  void fail(int position, const Error& error, bool may_try_again);
  void fail_later(int position, Error error);
  void progress(int position, const std::string& what) {
    if (handlers_.progress) handlers_.progress(position, what);
  }

  net::EventLoop& loop_;
  const Options options_;
  const process::Environment environment_;
  bool asks_for_devices_;
  Handlers handlers_;
  std::map<int, Place> places_;
  std::vector<int> waiting_;  // positions, for the end of this turn
  bool launching_ = false;    // deferred
  std::list<Step> steps_;
  std::shared_ptr<Link> scontrol_;
  net::EventLoop::TimerId scontrol_timer_ = 0;
  std::string scontrol_output_;
  std::optional<Devices> devices_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // what is deferred may come after us
};

// The job is over, or nobody wants it: agents that have joined end by themselves, and their srun then.
SlurmStarter::~SlurmStarter() {
  loop_.cancel(scontrol_timer_);
  for (auto& [position, place] : places_) loop_.cancel(place.timer);
  for (Step& step : steps_) {
    loop_.cancel(step.timer);
    const bool all_joined = std::all_of(step.positions.begin(), step.positions.end(),
                                        [&](int position) { return places_[position].joined; });
    if (!all_joined) step.link->signal(SIGTERM);
  }
  const Deadline deadline = Deadline::in(kEndTime);
  for (Step& step : steps_) {
    step.link->wait(deadline);
    step.link->close();
  }
}

Result<std::string> SlurmStarter::find(const std::string& program) const {
  auto path = std::find_if(environment_.begin(), environment_.end(), [](const auto& v) { return v.first == "PATH"; });
  return process::find_program(program, path == environment_.end() ? process::kDefaultPath : path->second);
}

// --- Starting -------------------------------------------------------------------------------------------------------

void SlurmStarter::start(int position, const Host& host, std::string /*description*/) {
  MUSTER_CHECK(!places_.contains(position));
  Place& place = places_[position];
  place.host = host;
  place.push = options_.push == Push::kAlways;
  progress(position, "starting through srun");
  waiting_.push_back(position);
  launch_soon();
}

void SlurmStarter::launch_soon() {
  if (std::exchange(launching_, true)) return;
  loop_.defer([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) launch_waiting();
  });
}

void SlurmStarter::launch_waiting() {
  if (asks_for_devices_) {
    if (!scontrol_)
      if (auto asking = ask_for_devices(); !asking) asks_for_devices_ = false;  // srun decides
    if (asks_for_devices_) return;
  }
  launching_ = false;
  std::vector<int> plain, pushed;
  for (int position : std::exchange(waiting_, {}))
    if (places_.contains(position)) (places_[position].push ? pushed : plain).push_back(position);
  if (!plain.empty()) launch(plain, false);
  if (!pushed.empty()) launch(pushed, true);
}

Result<void> SlurmStarter::ask_for_devices() {
  MUSTER_TRY(std::string scontrol, find(options_.scontrol));
  auto job =
      std::find_if(environment_.begin(), environment_.end(), [](const auto& v) { return v.first == "SLURM_JOB_ID"; });
  if (job == environment_.end()) return Error{ErrorKind::kUsage, "no SLURM_JOB_ID", {}};
  auto done = [this] {
    loop_.cancel(scontrol_timer_);
    devices_ = parse_devices(scontrol_output_);
    asks_for_devices_ = false;
    loop_.defer([this, alive = std::weak_ptr(alive_)] {
      if (alive.expired()) return;
      scontrol_.reset();
      launch_waiting();
    });
  };
  MUSTER_TRY(scontrol_, Link::open(loop_,
                                   {.program = scontrol,
                                    .argv = {"scontrol", "show", "job", "-d", job->second},
                                    .environment = environment_},
                                   Link::Kill::kGroup,
                                   {.output = [this](std::string_view bytes) { scontrol_output_ += bytes; },
                                    .said = {},
                                    .ended = [done](const process::ExitStatus&) { done(); }}));
  scontrol_->close_input();
  scontrol_timer_ = loop_.call_after(kDevicesTime, [this, done] {
    scontrol_->close();
    done();
  });
  return {};
}

std::vector<std::string> SlurmStarter::names_of(const std::vector<int>& positions) {
  std::vector<std::string> names;
  names.reserve(positions.size());
  for (int position : positions) names.push_back(places_[position].host.name);
  return names;
}

void SlurmStarter::launch(const std::vector<int>& positions, bool push) {
  const std::vector<std::string> hosts = names_of(positions);
  for (const Group& group : divide(hosts, devices_)) {
    std::vector<int> members;
    for (size_t host : group.hosts) members.push_back(positions[host]);
    if (auto launched = launch_step(members, group.devices, push); !launched)
      for (int position : members) fail_later(position, launched.error());
  }
}

Result<void> SlurmStarter::launch_step(const std::vector<int>& positions, const std::string& devices, bool push) {
  MUSTER_TRY(std::string srun, find(options_.srun));
  const std::vector<std::string> hosts = names_of(positions);
  const std::string bcast = push ? fmt::format("/tmp/muster-{}", random_uuid()) : "";
  const StepId step = steps_.emplace(steps_.end());
  auto link = Link::open(
      loop_, {.program = srun, .argv = srun_command(options_, hosts, devices, bcast), .environment = environment_},
      Link::Kill::kGroup,
      {.output = [this, step](std::string_view bytes) { output(step, bytes); },
       .said = [this, step](std::string_view line) { said(step, line); },
       .ended = [this, step](const process::ExitStatus& status) { step_ended(step, status); }});
  if (!link) {
    steps_.erase(step);
    return link.error();
  }
  step->link = *std::move(link);
  step->link->close_input();
  step->sends_program = push;
  for (int position : positions) {
    Place& place = places_[position];
    step->positions.insert(position);
    step->by_name[place.host.name] = position;
    place.step = step;
    place.timer = loop_.call_after(options_.answer_timeout, [this, position] { timed_out(position); });
    if (push) progress(position, "sending the program");
  }
  return {};
}

// --- What srun and its tasks say ------------------------------------------------------------------------------------

void SlurmStarter::output(StepId step, std::string_view bytes) {
  step->output += bytes;
  size_t end;
  while ((end = step->output.find('\n')) != std::string::npos) {
    const std::string line = step->output.substr(0, end);
    step->output.erase(0, end + 1);
    auto task = parse_task_line(line);
    auto greeting = task ? parse_greeting(task->text) : std::nullopt;
    if (greeting) greeted(step, task->task, *greeting);
  }
  if (step->output.size() > kKeptErrors) step->output.clear();
}

void SlurmStarter::greeted(StepId step, int task, const Greeting& greeting) {
  auto position = step->by_name.find(greeting.node);
  if (position == step->by_name.end()) return;
  claim(step, task, position->second);
  if (!greeting.same_version && step->positions.contains(position->second))
    places_[position->second].cannot_run = fmt::format("muster {} is there, {} here", greeting.version, version());
}

// Now it is known which node a task is on, and so whose lines these are.
void SlurmStarter::claim(StepId step, int task, int position) {
  step->by_task[task] = position;
  auto lines = step->unclaimed.extract(task);
  if (!lines || !step->positions.contains(position)) return;
  for (const std::string& line : lines.mapped()) task_said(position, line);
}

void SlurmStarter::said(StepId step, std::string_view line) {
  if (auto task = parse_task_line(line)) {
    auto position = step->by_task.find(task->task);
    if (position == step->by_task.end()) {
      auto& lines = step->unclaimed[task->task];
      if (lines.size() < kMostUnclaimed) lines.emplace_back(task->text);
    } else if (step->positions.contains(position->second)) {
      task_said(position->second, task->text);
    }
    return;
  }
  if (auto end = parse_task_end(line)) return task_ended(step, *end);
  if (auto why = why_it_waits(line))
    for (int position : step->positions)
      if (!places_[position].asked) progress(position, fmt::format("srun waits: {}", *why));
  step->errors += line;
  step->errors += '\n';
  if (step->errors.size() > kKeptErrors) step->errors.erase(0, step->errors.size() - kKeptErrors);
}

void SlurmStarter::task_said(int position, std::string_view text) {
  Place& place = places_[position];
  if (auto why = why_not_executed(text))
    place.cannot_run = *why;
  else
    place.last_line = text;
  if (place.cannot_run.empty() && handlers_.said) handlers_.said(position, text);
}

void SlurmStarter::task_ended(StepId step, const TaskEnd& end) {
  std::vector<int> gone;
  for (size_t i = 0; i < end.nodes.size(); ++i) {
    auto position = step->by_name.find(end.nodes[i]);
    if (position == step->by_name.end()) continue;
    if (!end.tasks.empty()) claim(step, end.tasks[i], position->second);
    if (step->positions.contains(position->second)) gone.push_back(position->second);
  }
  for (int position : gone) {
    Place& place = places_[position];
    place.end = end;
    const bool has_spoken = place.joined || !place.cannot_run.empty() || !place.last_line.empty();
    loop_.cancel(place.timer);
    place.timer = loop_.call_after(has_spoken ? Duration(0) : kOrderTime, [this, position] { agent_ended(position); });
  }
}

void SlurmStarter::agent_ended(int position) {
  const Place& place = places_[position];
  const TaskEnd end = *place.end;
  if (!place.cannot_run.empty() && !place.joined) return try_with_program(position);
  Error error = cluster::agent_ended({.code = end.code.value_or(255)}, place.joined ? "" : place.last_line);
  if (!end.code) error.message = fmt::format("the agent ended: {}", end.how);
  fail(position, error, place.joined || !end.code);
}

void SlurmStarter::step_ended(StepId step, const process::ExitStatus& status) {
  const std::vector<int> left(step->positions.begin(), step->positions.end());
  const Failure failure = explain_failure(status.shell_code(), step->errors);
  const std::weak_ptr<bool> alive = alive_;
  for (int position : left) {
    const Place& place = places_[position];
    if (place.end)
      agent_ended(position);
    else if (place.joined)
      fail(position, {ErrorKind::kPeer, "its srun ended: " + failure.text, {}}, true);
    else
      fail(position, {ErrorKind::kPeer, "srun: " + failure.text, failure.hint}, failure.may_try_again);
    if (alive.expired()) return;
  }
  loop_.cancel(step->timer);
  steps_.erase(step);
}

void SlurmStarter::asked(int position) {
  auto found = places_.find(position);
  if (found == places_.end()) return;
  if (!found->second.end) loop_.cancel(found->second.timer);
  found->second.asked = true;
  progress(position, "starting");
}

void SlurmStarter::joined(int position) {
  auto found = places_.find(position);
  if (found == places_.end()) return;
  if (!found->second.end) loop_.cancel(found->second.timer);
  found->second.joined = true;
}

// --- Ends -----------------------------------------------------------------------------------------------------------

// srun itself would wait for ever. Where others of the same srun have come it goes on for them.
void SlurmStarter::timed_out(int position) {
  const Place& place = places_[position];
  const auto limit = std::chrono::duration_cast<std::chrono::seconds>(options_.answer_timeout).count();
  const Failure failure = explain_failure(0, (*place.step)->errors);
  const bool silent = (*place.step)->errors.empty();
  fail(position,
       {ErrorKind::kTimeout,
        fmt::format("srun has started no agent within {} s{}", limit, silent ? "" : " (" + failure.text + ")"),
        failure.hint.empty() ? "sinfo shows whether the node is up; squeue -s which steps hold it" : failure.hint},
       silent || failure.may_try_again);
}

// The step is no longer responsible for it, and ends when it is for nobody.
void SlurmStarter::release(int position) {
  auto found = places_.find(position);
  loop_.cancel(found->second.timer);
  std::erase(waiting_, position);
  if (!found->second.step) return;
  const StepId step = *std::exchange(found->second.step, std::nullopt);
  step->positions.erase(position);
  if (!step->positions.empty()) return;
  if (!found->second.joined) step->link->signal(SIGTERM);
  step->timer = loop_.call_after(kLastWordTime, [this, step] {
    step->link->close();
    steps_.erase(step);
  });
}

void SlurmStarter::try_with_program(int position) {
  Place& place = places_[position];
  const bool sent = place.push;
  if (!sent && options_.push == Push::kAuto) {
    release(position);
    place.push = true;
    place.end.reset();
    place.cannot_run.clear();
    waiting_.push_back(position);
    return launch_soon();
  }
  const std::string why = place.cannot_run;
  if (sent)
    return fail(position, {ErrorKind::kPeer, "the program was sent, but does not run there: " + why, {}}, false);
  fail(position,
       {ErrorKind::kPeer, fmt::format("no muster {} there ({}: {})", version(), options_.program, why),
        "install it there, or let it be sent with --push-binary"},
       false);
}

void SlurmStarter::abandon(int position) {
  if (!places_.contains(position)) return;
  release(position);
  places_.erase(position);
}

void SlurmStarter::fail(int position, const Error& error, bool may_try_again) {
  release(position);
  places_.erase(position);
  if (handlers_.failed) handlers_.failed(position, error, may_try_again);  // may be the end of us
}

// Never from within start(): who calls it is not ready for the answer.
void SlurmStarter::fail_later(int position, Error error) {
  error.kind = ErrorKind::kSystem;  // of this machine, not of what the job is to run
  loop_.defer([this, alive = std::weak_ptr(alive_), position, error = std::move(error)] {
    if (!alive.expired() && places_.contains(position)) fail(position, error, false);
  });
}

}  // namespace

std::unique_ptr<Starter> make_starter(net::EventLoop& loop, Options options, const process::Environment& environment,
                                      Starter::Handlers handlers) {
  return std::make_unique<SlurmStarter>(loop, std::move(options), environment, std::move(handlers));
}

}  // namespace muster::cluster::slurm
