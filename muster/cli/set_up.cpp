#include "muster/cli/set_up.h"

#include <unistd.h>

#include "muster/agent/supervisor.h"
#include "muster/base/fd.h"
#include "muster/base/printable.h"
#include "muster/environment/capture.h"

namespace muster::cli {
namespace {

constexpr size_t kLinesShown = 40;

void say(const std::string& text) { (void)write_all(STDERR_FILENO, text.data(), text.size()); }

// A launcher puts the host in front of what its agents say.
void show(const std::string& output, const std::string& host, bool by_launcher, size_t most) {
  for (const std::string& line : last_lines(output, most))
    say(by_launcher ? line + "\n" : fmt::format("[{}] {}\n", host, line));
}

}  // namespace

Result<Environment> set_up(const environment::Setup& setup, const Environment& before, const SetUpManner& manner,
                           int launcher) {
  const bool by_launcher = launcher >= 0;
  environment::CaptureOptions options{.time = manner.time, .launcher = launcher};
  if (by_launcher) {
    options.slow = [](const std::string& step) { say(fmt::format("{}{}\n", agent::kSettingUp, step)); };
  } else if (manner.threshold <= LogLevel::kInfo) {
    options.slow = [&](const std::string& step) { say(fmt::format("muster: setting up {}: {}\n", manner.host, step)); };
  }
  environment::Capture done = environment::capture(setup, before, options);
  if (!done.environment) {
    Error error = done.environment.error();
    if (error.kind != ErrorKind::kInterrupted) show(done.output, manner.host, by_launcher, kLinesShown);
    error.message = fmt::format("{}: {}", manner.host, error.message);
    return error;
  }
  if (manner.threshold <= LogLevel::kDebug) show(done.output, manner.host, by_launcher, SIZE_MAX);
  use_environment(*done.environment);
  return done.environment;
}

}  // namespace muster::cli
