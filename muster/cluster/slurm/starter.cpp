#include "muster/cluster/slurm/starter.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <list>
#include <map>
#include <set>

#include "muster/base/random.h"
#include "muster/base/version.h"
#include "muster/cluster/link.h"
#include "muster/cluster/slurm/device_query.h"
#include "muster/cluster/slurm/failure.h"
#include "muster/cluster/slurm/step.h"
#include "muster/cluster/slurm/step_output.h"
#include "muster/process/python.h"

namespace muster::cluster::slurm {
namespace {

constexpr Duration kLastWordTime = std::chrono::seconds(5);  // of a step that nobody is left in
// srun tells of a task's end and of its last words on two connections, in either order.
constexpr Duration kOrderTime = std::chrono::milliseconds(500);
constexpr std::string_view kSrun = "srun";
constexpr Duration kEndTime = std::chrono::seconds(2);  // for srun to see that its tasks have ended

// One srun: the agents of some nodes.
struct Step {
  std::shared_ptr<Link> link;
  StepOutput output;
  net::EventLoop::TimerId timer = 0;  // once it is deserted
};
using StepId = std::list<Step>::iterator;

// One start on one host.
struct Place {
  Host host;
  bool push = false;
  bool other_version = false;
  bool asked = false, joined = false;
  std::string last_line;       // of the agent
  std::string cannot_run;      // why the program at our path does not do
  std::optional<StepId> step;  // none: it waits for the end of this turn
  std::optional<TaskEnd> end;  // its last words may still come
  net::EventLoop::TimerId timer = 0;
};

class SlurmStarter final : public Starter {
 public:
  SlurmStarter(net::EventLoop& loop, Options options, const Environment& environment, Handlers handlers)
      : loop_(loop),
        options_(std::move(options)),
        environment_(srun_environment(environment)),
        components_(components_of(environment)),
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
  void ask_for_devices();
  std::vector<std::string> names_of(const std::vector<int>& positions);
  void launch(const std::vector<int>& positions, bool push);
  Result<void> launch_step(const std::vector<int>& positions, const std::vector<std::string>& options, bool push);

  StepOutput::Handlers listen();
  void greeted(int position, const Greeting& greeting);
  void said(int position, std::string_view line);
  void task_ended(int position, const TaskEnd& end);
  void agent_ended(int position);
  void step_ended(StepId step, const process::ExitStatus& status);
  void give_up(int position);

  void release(int position);
  void try_with_program(int position);
  void fail(int position, const StartFailure& failed);
  void fail_later(int position, Error error);
  void progress(int position, const Progress& what) {
    if (handlers_.progress) handlers_.progress(position, what);
  }

  net::EventLoop& loop_;
  const Options options_;
  const Environment environment_;
  const Components components_;
  bool asks_for_devices_;
  Handlers handlers_;
  std::map<int, Place> places_;
  std::vector<int> waiting_;  // positions, for the end of this turn
  bool launching_ = false;    // deferred
  std::list<Step> steps_;
  std::unique_ptr<DeviceQuery> device_query_;
  std::optional<Devices> devices_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // what is deferred may come after us
};

// The job is over, or nobody wants it: agents that have joined end by themselves, and their srun then.
SlurmStarter::~SlurmStarter() {
  for (auto& [position, place] : places_) loop_.cancel(place.timer);
  for (Step& step : steps_) {
    loop_.cancel(step.timer);
    const auto has_joined = [&](int position) { return places_[position].joined; };
    if (!std::ranges::all_of(step.output.positions(), has_joined)) step.link->signal(SIGTERM);
  }
  const Deadline deadline = Deadline::in(kEndTime);
  for (Step& step : steps_) {
    step.link->wait(deadline);
    step.link->close();
  }
}

Result<std::string> SlurmStarter::find(const std::string& program) const {
  return process::find_program(program, environment_.get("PATH").value_or(process::kDefaultPath));
}

// --- Starting -------------------------------------------------------------------------------------------------------

void SlurmStarter::start(int position, const Host& host, std::string /*description*/) {
  MUSTER_CHECK(!places_.contains(position));
  Place& place = places_[position];
  place.host = host;
  place.push = options_.push == Push::kAlways;
  progress(position, {Progress::Stage::kRequested, {}, kSrun});
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
  if (asks_for_devices_ && !device_query_) ask_for_devices();
  if (device_query_) return;
  launching_ = false;
  std::vector<int> plain, pushed;
  for (int position : std::exchange(waiting_, {}))
    if (places_.contains(position)) (places_[position].push ? pushed : plain).push_back(position);
  if (!plain.empty()) launch(plain, false);
  if (!pushed.empty()) launch(pushed, true);
}

// Who cannot be asked is not: srun decides.
void SlurmStarter::ask_for_devices() {
  asks_for_devices_ = false;
  auto scontrol = find(options_.scontrol);
  if (!scontrol) return;
  auto query = DeviceQuery::start(loop_, *scontrol, environment_, [this](const Devices& devices) {
    devices_ = devices;
    device_query_.reset();
    launch_waiting();
  });
  if (query) device_query_ = *std::move(query);
}

std::vector<std::string> SlurmStarter::names_of(const std::vector<int>& positions) {
  std::vector<std::string> names;
  names.reserve(positions.size());
  for (int position : positions) names.push_back(places_[position].host.name);
  return names;
}

void SlurmStarter::launch(const std::vector<int>& positions, bool push) {
  const std::vector<std::string> hosts = names_of(positions);
  for (const Group& group : divide(hosts, devices_, components_)) {
    std::vector<int> members;
    for (size_t host : group.hosts) members.push_back(positions[host]);
    if (auto launched = launch_step(members, group.options, push); !launched)
      for (int position : members) fail_later(position, launched.error());
  }
}

Result<void> SlurmStarter::launch_step(const std::vector<int>& positions, const std::vector<std::string>& options,
                                       bool push) {
  MUSTER_TRY(std::string srun, find(options_.srun));
  const std::vector<std::string> hosts = names_of(positions);
  const std::string bcast = push ? fmt::format("/tmp/muster-{}", random_uuid()) : "";
  std::map<std::string, int> by_name;
  for (int position : positions) by_name[places_[position].host.name] = position;
  const StepId step = steps_.insert(steps_.end(), {.link = {}, .output = {std::move(by_name), listen()}});
  auto link = Link::open(
      loop_, {.program = srun, .argv = srun_command(options_, hosts, options, bcast), .environment = environment_},
      Link::Kill::kGroup,
      {.output = [step](std::string_view bytes) { step->output.add_output(bytes); },
       .said = [step](std::string_view line) { step->output.add_line(line); },
       .ended = [this, step](const process::ExitStatus& status) { step_ended(step, status); }});
  if (!link) {
    steps_.erase(step);
    return link.error();
  }
  step->link = *std::move(link);
  step->link->close_input();
  for (int position : positions) {
    Place& place = places_[position];
    place.step = step;
    place.timer = loop_.call_after(options_.answer_timeout, [this, position] { give_up(position); });
    if (push) progress(position, {Progress::Stage::kSending});
  }
  return {};
}

// --- What srun and its tasks say ------------------------------------------------------------------------------------

StepOutput::Handlers SlurmStarter::listen() {
  return {.greeted = [this](int position, const Greeting& greeting) { greeted(position, greeting); },
          .said = [this](int position, std::string_view line) { said(position, line); },
          .ended = [this](int position, const TaskEnd& end) { task_ended(position, end); },
          .waits =
              [this](int position, const std::string& why) {
                if (!places_[position].asked) progress(position, {Progress::Stage::kWaiting, why, kSrun});
              }};
}

void SlurmStarter::greeted(int position, const Greeting& greeting) {
  if (greeting.same_version) return;
  places_[position].cannot_run = fmt::format("muster {} is there, {} here", greeting.version, version());
  places_[position].other_version = true;
}

void SlurmStarter::said(int position, std::string_view line) {
  Place& place = places_[position];
  if (auto why = why_not_executed(line))
    place.cannot_run = *why;
  else
    place.last_line = line;
  if (place.cannot_run.empty() && handlers_.said) handlers_.said(position, line);
}

void SlurmStarter::task_ended(int position, const TaskEnd& end) {
  Place& place = places_[position];
  place.end = end;
  const bool has_spoken = place.joined || !place.cannot_run.empty() || is_last_word(place.last_line);
  loop_.cancel(place.timer);
  place.timer = loop_.call_after(has_spoken ? Duration(0) : kOrderTime, [this, position] { agent_ended(position); });
}

void SlurmStarter::agent_ended(int position) {
  const Place& place = places_[position];
  if (!place.cannot_run.empty() && !place.joined) return try_with_program(position);
  const Stage stage = place.joined ? Stage::kJoined : place.asked ? Stage::kAsked : Stage::kStarted;
  fail(position, task_failed(*place.end, place.last_line, stage));
}

void SlurmStarter::step_ended(StepId step, const process::ExitStatus& status) {
  const std::set<int> left = step->output.positions();
  const std::weak_ptr<bool> alive = alive_;
  for (int position : left) {
    const Place& place = places_[position];
    if (place.end)
      agent_ended(position);
    else
      fail(position, step_failed(status.shell_code(), step->output.errors(), place.joined));
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
  progress(position, {Progress::Stage::kStarting});
}

void SlurmStarter::joined(int position) {
  auto found = places_.find(position);
  if (found == places_.end()) return;
  if (!found->second.end) loop_.cancel(found->second.timer);
  found->second.joined = true;
}

// --- Ends -----------------------------------------------------------------------------------------------------------

// Where others of the same srun have come it goes on for them.
void SlurmStarter::give_up(int position) {
  fail(position, timed_out(options_.answer_timeout, (*places_[position].step)->output.errors()));
}

// The step is no longer responsible for it, and ends when it is for nobody.
void SlurmStarter::release(int position) {
  auto found = places_.find(position);
  loop_.cancel(found->second.timer);
  std::erase(waiting_, position);
  if (!found->second.step) return;
  const StepId step = *std::exchange(found->second.step, std::nullopt);
  step->output.forget(position);
  if (!step->output.positions().empty()) return;
  if (!found->second.joined) step->link->signal(SIGTERM);
  step->timer = loop_.call_after(kLastWordTime, [this, step] {
    step->link->close();
    steps_.erase(step);
  });
}

void SlurmStarter::try_with_program(int position) {
  Place& place = places_[position];
  if (place.push || options_.push != Push::kAuto)
    return fail(position, slurm::cannot_run(options_.program, place.cannot_run, place.push,
                                            place.other_version ? StartCause::kOtherVersion : StartCause::kProgram));
  release(position);
  place.push = true;
  place.end.reset();
  place.cannot_run.clear();
  waiting_.push_back(position);
  launch_soon();
}

void SlurmStarter::abandon(int position) {
  if (!places_.contains(position)) return;
  release(position);
  places_.erase(position);
}

void SlurmStarter::fail(int position, const StartFailure& failed) {
  release(position);
  places_.erase(position);
  if (handlers_.failed) handlers_.failed(position, failed);  // may be the end of us
}

// Never from within start(): who calls it is not ready for the answer.
void SlurmStarter::fail_later(int position, Error error) {
  error.kind = ErrorKind::kSystem;  // of this machine, not of what the job is to run
  loop_.defer([this, alive = std::weak_ptr(alive_), position, error = std::move(error)] {
    if (!alive.expired() && places_.contains(position)) fail(position, {StartCause::kThisMachine, error, false});
  });
}

}  // namespace

std::unique_ptr<Starter> make_starter(net::EventLoop& loop, Options options, const Environment& environment,
                                      Starter::Handlers handlers) {
  return std::make_unique<SlurmStarter>(loop, std::move(options), environment, std::move(handlers));
}

}  // namespace muster::cluster::slurm
