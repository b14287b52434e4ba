#include "muster/cli/planning.h"

#include <fmt/format.h>
#include <unistd.h>

#include "muster/agent/supervisor.h"
#include "muster/base/fd.h"
#include "muster/base/printable.h"
#include "muster/environment/capture.h"

namespace muster::cli {
namespace {

constexpr size_t kLinesShown = 40;

void say(const std::string& text) { (void)write_all(STDERR_FILENO, text.data(), text.size()); }

// What takes long. A launcher puts the host in front of what its agents say.
std::function<void(const std::string&)> slow_steps(const std::string& host, LogLevel threshold, bool by_launcher) {
  if (!by_launcher && threshold > LogLevel::kInfo) return nullptr;
  const std::string begin = by_launcher ? std::string(agent::kSettingUp) : fmt::format("muster: setting up {}: ", host);
  return [begin](const std::string& step) { say(fmt::format("{}{}\n", begin, step)); };
}

void show(const std::string& output, const std::string& host, bool by_launcher, size_t most) {
  for (const std::string& line : last_lines(output, most))
    say(by_launcher ? line + "\n" : fmt::format("[{}] {}\n", host, line));
}

// With --verbose, and when it fails, shows what the lines printed.
Result<Environment> set_up(const plan::SetUp& step, const Environment& before, int launcher) {
  const bool by_launcher = launcher >= 0;
  environment::CaptureOptions options{.time = step.time, .launcher = launcher};
  options.slow = slow_steps(step.host, step.threshold, by_launcher);
  environment::Capture done = environment::capture(step.setup, before, options);
  if (!done.environment) {
    Error error = done.environment.error();
    if (error.kind != ErrorKind::kInterrupted) show(done.output, step.host, by_launcher, kLinesShown);
    error.message = fmt::format("{}: {}", step.host, error.message);
    return error;
  }
  if (step.threshold <= LogLevel::kDebug) show(done.output, step.host, by_launcher, SIZE_MAX);
  use_environment(*done.environment);
  return done.environment;
}

Result<container::Prepared> make_container(const plan::MakeContainer& step, int launcher) {
  container::Request request = step.request;
  request.deadline = Deadline::in(step.time);
  request.launcher = launcher;
  request.say = slow_steps(request.host, step.threshold, launcher >= 0);
  return container::prepare(request);
}

Result<void> raise_limit(const plan::JobPlan& plan, bool dry_run) {
  const plan::Descriptors descriptors = plan::descriptors(plan);
  const uint64_t limit = raise_descriptor_limit(descriptors.needed);
  if (limit >= descriptors.needed && descriptors.wanted > 0) raise_descriptor_limit(descriptors.wanted);
  return dry_run ? Result<void>() : plan::check_descriptors(descriptors, limit);
}

}  // namespace

Result<plan::JobPlan> make_plan(const job::Request& request, plan::Facts& facts, const Planning& planning) {
  for (;;) {
    plan::Outcome outcome = plan::plan(request, facts, planning.agent);
    if (auto* error = std::get_if<Error>(&outcome)) return std::move(*error);
    if (auto* plan = std::get_if<plan::JobPlan>(&outcome)) {
      MUSTER_TRY_VOID(raise_limit(*plan, request.dry_run));
      return std::move(*plan);
    }
    if (const auto* question = std::get_if<plan::Question>(&outcome)) {
      facts.answers.emplace(*question, planning.answer(*question));
    } else if (const auto* step = std::get_if<plan::SetUp>(&outcome)) {
      MUSTER_TRY(facts.left_by_set_up, set_up(*step, facts.environment, planning.launcher));
      plan::forget_after_set_up(facts);
    } else {
      MUSTER_TRY(facts.container, make_container(std::get<plan::MakeContainer>(outcome), planning.launcher));
    }
  }
}

}  // namespace muster::cli
