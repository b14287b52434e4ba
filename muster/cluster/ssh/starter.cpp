#include "muster/cluster/ssh/starter.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>

#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/base/version.h"
#include "muster/cluster/description.h"
#include "muster/cluster/link.h"
#include "muster/cluster/sha256.h"
#include "muster/cluster/ssh/steps.h"
#include "muster/process/python.h"

namespace muster::cluster::ssh {
namespace {

constexpr int kSshFailed = 255;  // exit code: ssh itself, not the remote command
constexpr int kNotExecutable = 126, kNotFound = 127;
constexpr size_t kKeptOutput = 4 << 10;  // of stdout and stderr, each
constexpr Duration kSendTime = std::chrono::minutes(10);
constexpr Duration kLastWordTime = std::chrono::seconds(5);  // of a node that is lost: its warden may say why

// One start on one host: the runs of ssh that it takes, one after the other.
struct Node {
  int position = 0;
  Host host;
  std::string description;
  std::string part = random_uuid();

  Step step = Step::kOwnProgram;
  std::shared_ptr<Link> link;
  GreetingReader greeting;
  std::string output;  // of this step; of an agent the last line on stderr
  std::string errors;  // what it said on stderr
  net::EventLoop::TimerId timer = 0;
  bool shakes_hands = false;  // counts among those at a time

  std::string own_failure;  // why the program at our path does not do
  StartCause own_cause = StartCause::kProgram;
  std::optional<StartFailure> failure;  // to be told when the rest is removed
  bool joined = false;
  bool abandoned = false;

  bool greeted() const { return greeting.state() == GreetingReader::State::kGood; }
};

std::string size_text(size_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

void keep_tail(std::string& text, std::string_view more) {
  text += more;
  if (text.size() > kKeptOutput) text.erase(0, text.size() - kKeptOutput);
}

// What `program` itself said, not the figures it may print behind ("3+1 records in").
std::string said_by(std::string_view program, const std::string& errors, int code) {
  for (std::string_view line : split(errors, '\n')) {
    if (line.starts_with(program) && line.substr(program.size()).starts_with(": ")) return std::string(line);
  }
  return fmt::format("{}: {}", program, explain_failure(code, errors).why.message);
}

// A line of sha256sum that begins with the sum: the name behind it has it too. A login script may have spoken first.
bool has_sum(std::string_view output, const std::string& sum) {
  for (std::string_view line : split(output, '\n'))
    if (line.starts_with(sum + " ")) return true;
  return false;
}

std::string why_no_greeting(int code, const std::string& errors) {
  if (code == kNotFound) return "not found";
  if (code == kNotExecutable) return "cannot be executed";
  std::string line(trim(errors));
  line.erase(0, line.rfind('\n') + 1);
  return fmt::format("exit code {}{}", code, line.empty() ? "" : " (" + line + ")");
}

class SshStarter final : public Starter {
 public:
  SshStarter(net::EventLoop& loop, Options options, Environment environment, Handlers handlers)
      : loop_(loop),
        options_(std::move(options)),
        environment_(std::move(environment)),
        handlers_(std::move(handlers)) {}
  ~SshStarter() override;

  void start(int position, const Host& host, std::string description) override;
  void joined(int position) override {
    if (auto found = nodes_.find(position); found != nodes_.end()) found->second.joined = true;
  }
  void abandon(int position) override;

 private:
  void let_go(std::map<int, Node>::node_type lost);
  void enter(Node& node, Step step);
  void run_waiting();
  void run(Node& node);
  Result<void> open_link(Node& node);
  Result<process::SpawnSpec> spec_of(const Node& node, Fd& binary);
  std::vector<std::string> wrapped(Step step, const Names& names) const;
  Result<FileSum> binary_sum();
  Result<std::string> ssh_program();

  void output(Node& node, std::string_view bytes);
  void said(Node& node, std::string_view line);
  void ended(Node& node, const process::ExitStatus& status);
  void greeted(Node& node);
  void agent_ended(Node& node, const process::ExitStatus& status);
  void step_failed(Node& node, const std::string& why, StartCause cause = StartCause::kProgram);
  void push_failed(Node& node, const std::string& why);
  void timed_out(Node& node, Duration limit);
  void answered(Node& node);
  void close_link(Node& node);
  void fail(Node& node, const StartFailure& failure);
  void fail_later(int position, Error error);
  void progress(const Node& node, const Progress& what) {
    if (handlers_.progress) handlers_.progress(node.position, what);
  }

  net::EventLoop& loop_;
  Options options_;
  Environment environment_;
  Handlers handlers_;
  std::map<int, Node> nodes_;
  std::multimap<int, Node> abandoned_;  // of earlier lives: what they say is passed on for a while
  std::deque<int> waiting_;             // positions, for their turn to shake hands
  int shaking_ = 0;
  std::optional<FileSum> sum_;
  std::string ssh_;                                             // found
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // what is deferred may come after us
};

SshStarter::~SshStarter() {
  // All are killed before the first is waited for.
  auto end = [this](Node& node) {
    loop_.cancel(node.timer);
    if (node.link) node.link->close();
  };
  for (auto& [position, node] : nodes_) end(node);
  for (auto& [position, node] : abandoned_) end(node);
}

void SshStarter::start(int position, const Host& host, std::string description) {
  MUSTER_CHECK(!nodes_.contains(position));
  Node& node = nodes_[position];
  node.position = position;
  node.host = host;
  node.description = std::move(description);
  progress(node, {Progress::Stage::kConnecting});
  enter(node, first_step(options_));
}

void SshStarter::abandon(int position) {
  auto found = nodes_.find(position);
  if (found == nodes_.end()) return;
  std::erase(waiting_, position);  // start() may put it there again
  loop_.cancel(found->second.timer);
  if (found->second.joined && found->second.link) {
    let_go(nodes_.extract(found));
  } else {
    close_link(found->second);
    nodes_.erase(found);
  }
  run_waiting();
}

// Its handlers go on with the node, which stays where it is.
void SshStarter::let_go(std::map<int, Node>::node_type lost) {
  auto kept = abandoned_.insert(std::move(lost));
  Node& node = kept->second;
  node.abandoned = true;
  node.timer = loop_.call_after(kLastWordTime, [this, kept] {
    close_link(kept->second);
    abandoned_.erase(kept);
  });
}

void SshStarter::enter(Node& node, Step step) {
  node.step = step;
  close_link(node);
  node.greeting = {};
  node.output.clear();
  node.errors.clear();
  waiting_.push_back(node.position);
  run_waiting();
}

void SshStarter::run_waiting() {
  while (shaking_ < options_.at_a_time && !waiting_.empty()) {
    auto found = nodes_.find(waiting_.front());
    waiting_.pop_front();
    if (found != nodes_.end()) run(found->second);
  }
}

void SshStarter::run(Node& node) {
  if (auto opened = open_link(node); !opened) return fail_later(node.position, opened.error());
  ++shaking_;
  node.shakes_hands = true;
  Duration limit = node.step == Step::kSend ? kSendTime : options_.connect_timeout + options_.answer_timeout;
  node.timer = loop_.call_after(limit, [this, &node, limit] { timed_out(node, limit); });
  if (node.step == Step::kSend) progress(node, {Progress::Stage::kSending, size_text(sum_->size)});
}

// A node stays where it is until its link is gone.
Result<void> SshStarter::open_link(Node& node) {
  Fd binary;
  MUSTER_TRY(process::SpawnSpec spec, spec_of(node, binary));
  MUSTER_TRY(node.link, Link::open(loop_, std::move(spec), Link::Kill::kGroup,
                                   {.output = [this, &node](std::string_view bytes) { output(node, bytes); },
                                    .said = [this, &node](std::string_view line) { said(node, line); },
                                    .ended = [this, &node](const auto& status) { ended(node, status); }}));
  return {};
}

Result<process::SpawnSpec> SshStarter::spec_of(const Node& node, Fd& binary) {
  MUSTER_TRY(std::string ssh, ssh_program());
  Names names{options_.program, {}, node.part};
  if (node.step != Step::kOwnProgram) {
    MUSTER_TRY(FileSum sum, binary_sum());
    names.sha256 = sum.hex;
  }
  process::SpawnSpec spec{
      .program = ssh, .argv = ssh_command(options_, node.host, wrapped(node.step, names)), .environment = environment_};
  if (node.step == Step::kSend) {
    binary = Fd(open(options_.binary.c_str(), O_RDONLY | O_CLOEXEC));
    if (!binary) return system_error(errno, "cannot read " + options_.binary);
    spec.stdin_fd = binary.get();
  }
  return spec;
}

std::vector<std::string> SshStarter::wrapped(Step step, const Names& names) const {
  std::vector<std::string> words = remote_command(step, names);
  if (is_agent(step)) words.insert(words.begin(), options_.wrapper.begin(), options_.wrapper.end());
  return words;
}

Result<FileSum> SshStarter::binary_sum() {
  if (!sum_) {
    MUSTER_TRY(sum_, sha256_of_file(options_.binary));
  }
  return *sum_;
}

Result<std::string> SshStarter::ssh_program() {
  if (!ssh_.empty()) return ssh_;
  MUSTER_TRY(ssh_, process::find_program(options_.ssh, environment_.get("PATH").value_or(process::kDefaultPath)));
  return ssh_;
}

void SshStarter::close_link(Node& node) {
  if (std::exchange(node.shakes_hands, false)) --shaking_;
  if (node.link) node.link->close();
  node.link.reset();
}

// The first byte: the handshake is over, another may begin.
void SshStarter::answered(Node& node) {
  if (!std::exchange(node.shakes_hands, false)) return;
  --shaking_;
  run_waiting();
}

void SshStarter::output(Node& node, std::string_view bytes) {
  answered(node);
  if (!is_agent(node.step)) return keep_tail(node.output, bytes);
  if (node.greeted()) return;  // an agent speaks on stderr and on its own connections
  switch (node.greeting.add(bytes)) {
    case GreetingReader::State::kWaiting:
      return;
    case GreetingReader::State::kGood:
      return greeted(node);
    case GreetingReader::State::kOther:
      return step_failed(node, fmt::format("muster {} is there, {} here", node.greeting.other(), version()),
                         StartCause::kOtherVersion);
    case GreetingReader::State::kNone:
      return step_failed(node, "what answers there is no agent");
  }
}

void SshStarter::greeted(Node& node) {
  loop_.cancel(node.timer);
  node.errors.clear();  // banners and the like
  node.link->write(std::exchange(node.description, {}));
  progress(node, {Progress::Stage::kStarting});
}

void SshStarter::said(Node& node, std::string_view line) {
  if (!node.greeted() || is_last_word(line)) return keep_tail(node.errors, std::string(line) + '\n');
  node.output = line;
  if (handlers_.said) handlers_.said(node.position, line);
}

void SshStarter::ended(Node& node, const process::ExitStatus& status) {
  loop_.cancel(node.timer);
  answered(node);
  if (node.abandoned) {
    std::erase_if(abandoned_, [&](const auto& each) { return &each.second == &node; });
    return;
  }
  int code = status.shell_code();
  if (node.step == Step::kRemove) return fail(node, *node.failure);
  if (node.greeted()) return agent_ended(node, status);
  if (is_agent(node.step) && options_.wrapper_error) {
    if (auto failure = options_.wrapper_error(code, node.errors))
      return failure->cause == StartCause::kProgram ? step_failed(node, failure->why.message) : fail(node, *failure);
  }
  if (code == kSshFailed || status.signal != 0) {
    StartFailure failure = explain_failure(code, node.errors);
    failure.why.message.insert(0, "ssh: ");
    return fail(node, failure);
  }
  if (is_agent(node.step)) return step_failed(node, why_no_greeting(code, node.errors));
  std::string wrong;
  if (code != 0)
    wrong = said_by(remote_command(node.step, {})[0], node.errors, code);
  else if (is_check(node.step) && !has_sum(node.output, sum_->hex))
    wrong = "what arrived there differs from what was sent";
  if (wrong.empty()) return enter(node, *step_after_success(node.step));
  if (node.step == Step::kCheckCached) progress(node, {Progress::Stage::kReplacing});
  is_attempt(node.step) ? step_failed(node, wrong) : push_failed(node, wrong);
}

void SshStarter::agent_ended(Node& node, const process::ExitStatus& status) {
  bool lost = status.shell_code() == kSshFailed || status.signal != 0;
  Error error = cluster::agent_ended(status, node.joined ? "" : node.output);
  if (lost)
    error.message =
        "ssh: " + (node.errors.empty() ? "connection lost" : explain_failure(kSshFailed, node.errors).why.message);
  // One that ended by itself before it joined has said why, and would again.
  fail(node, {lost ? StartCause::kLost : StartCause::kAgentEnded, error, lost || node.joined});
}

void SshStarter::step_failed(Node& node, const std::string& why, StartCause cause) {
  loop_.cancel(node.timer);
  if (node.step == Step::kOwnProgram) {
    node.own_failure = fmt::format("{}: {}", options_.program, why);
    node.own_cause = cause;
  }
  if (auto next = step_after_failure(node.step, options_.push)) return enter(node, *next);
  if (node.step == Step::kSentProgram) {
    return fail(node, {cause, {ErrorKind::kPeer, "the program was sent, but does not run there: " + why, {}}, false});
  }
  std::string what = node.own_failure.empty() ? why : node.own_failure;
  fail(node, {node.own_failure.empty() ? cause : node.own_cause,
              {ErrorKind::kPeer, fmt::format("no muster {} there ({})", version(), what),
               "install it there, or let it be sent with --push-binary"},
              false});
}

void SshStarter::push_failed(Node& node, const std::string& why) {
  node.failure = {
      StartCause::kProgram, {ErrorKind::kPeer, fmt::format("the program cannot be sent ({})", why), {}}, false};
  if (auto next = step_after_failure(node.step, options_.push)) return enter(node, *next);
  fail(node, *node.failure);
}

void SshStarter::timed_out(Node& node, Duration limit) {
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit).count();
  fail(node,
       {StartCause::kTimedOut, {ErrorKind::kTimeout, fmt::format("ssh: no answer within {} s", seconds), {}}, true});
}

void SshStarter::fail(Node& node, const StartFailure& failure) {
  int position = node.position;
  loop_.cancel(node.timer);
  close_link(node);
  auto kept = nodes_.extract(position);  // the failure may be its own
  run_waiting();
  if (handlers_.failed) handlers_.failed(position, failure);  // may be the end of us
}

// Never from within start(): who calls it is not ready for the answer.
void SshStarter::fail_later(int position, Error error) {
  error.kind = ErrorKind::kSystem;  // of this machine, not of what the job is to run
  loop_.defer([this, alive = std::weak_ptr(alive_), position, error = std::move(error)] {
    if (alive.expired()) return;
    if (auto found = nodes_.find(position); found != nodes_.end())
      fail(found->second, {StartCause::kThisMachine, error, false});
  });
}

}  // namespace

Options options_from(const StartOptions& options) { return {{options.ssh}, options.program, options.push}; }

std::unique_ptr<Starter> make_starter(net::EventLoop& loop, Options options, Environment environment,
                                      Starter::Handlers handlers) {
  return std::make_unique<SshStarter>(loop, std::move(options), std::move(environment), std::move(handlers));
}

}  // namespace muster::cluster::ssh
