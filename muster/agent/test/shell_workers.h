#pragma once

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>

#include "muster/agent/log_directories.h"
#include "muster/output/console.h"
#include "muster/output/output.h"
#include "muster/output/test/output_harness.h"
#include "muster/process/descendants.h"
#include "muster/report/events.h"
#include "muster/report/voice.h"

namespace muster::agent::testing {

inline constexpr auto kSoon = std::chrono::seconds(60);
inline constexpr auto kNever = std::chrono::hours(1);

// Notes in the directory that the worker is there, by a file of its rank; then it waits for a signal.
inline const char* const kWait = "touch $RANK.up; exec sleep 1000";
// The same, but it ignores SIGTERM and SIGINT.
inline const char* const kIgnore = "trap '' TERM INT; touch $RANK.up; while :; do sleep 1000; done";

// A job whose workers run a script of /bin/sh in a directory of the test's, and all that starting them needs.
class ShellWorkers : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(process::become_subreaper()); }
  void TearDown() override {
    process::kill_descendants(Deadline::in(kSoon));
    ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
  }

  void prepare(const std::string& script, int workers = 2) {
    job_.command.program = "/bin/sh";
    job_.command.argv = {"sh", "-c", "cd " + directory_.path() + "; " + script};
    job_.command.template_from = job_.command.argv.size();
    job_.workers = workers;
    job_.environment = {{"PATH", "/usr/bin:/bin"}};
    job_.output.log_dir = "/dev/null";
    job_.output.inherit_plain_streams = true;
    job_.shutdown_timeout = kNever;
    logs_.emplace(*LogDirectories::create(job_));
    output_ = std::make_unique<output::Output>(loop_, console_, job_, logs_->layout());
    events_.emplace(*report::Events::open(job_, console_));
  }
  job::Round round() const {
    job::Round round;
    round.world_size = round.role_world_size = job_.workers;
    round.job = "test";
    return round;
  }

  template <typename Condition>
  bool until(Condition condition) {
    for (Deadline deadline = Deadline::in(kSoon); !condition();
         loop_.run_until(Deadline::in(std::chrono::milliseconds(5))))
      if (deadline.passed()) return false;
    return true;
  }
  bool is_up(int rank) const { return exists(std::to_string(rank) + ".up"); }
  bool all_up() const {
    for (int rank = 0; rank < job_.workers; ++rank)
      if (!is_up(rank)) return false;
    return true;
  }
  bool exists(const std::string& file) const { return std::filesystem::exists(directory_.path() + "/" + file); }
  // What the console has been told so far.
  std::string said() {
    console_.flush(Deadline::in(kSoon));
    said_ += output::testing::read_available(stderr_.read.get());
    return said_;
  }

  output::testing::TemporaryDirectory directory_;
  output::testing::Pipe stderr_ = output::testing::make_pipe();
  std::string said_;
  net::EventLoop loop_;
  output::Console console_{loop_, output::Console::Options{.stderr_fd = stderr_.write.get()}};
  report::Voice voice_{console_, job::Flavor::kMuster};
  job::JobSpec job_;
  std::optional<LogDirectories> logs_;
  std::unique_ptr<output::Output> output_;
  std::optional<report::Events> events_;
};

}  // namespace muster::agent::testing
