#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/environment/setup.h"

namespace muster::environment {

struct CaptureOptions {
  Duration time = std::chrono::minutes(10);
  int launcher = -1;  // a descriptor that becomes readable when the launcher is gone; -1: none
  std::function<void(const std::string& step)> slow = nullptr;    // called after a second, then at each later step
  std::function<void(std::string_view bytes)> printed = nullptr;  // called with what the steps print
};

struct Capture {
  // Errors: kUsage (a step failed), kTimeout, kPeer (the launcher is gone), kInterrupted, kSystem.
  Result<Environment> environment;
  std::string output;  // the end of what the steps printed, whole lines
};

// Runs the steps of `setup` in one shell that starts with the environment `before`. Returns the environment that the
// shell leaves. The variables of setup.set are set before the first step, and again after the last. Blocks until the
// shell has ended, the time is over, or the launcher is gone. In the last two cases everything that the shell started
// is killed. The same happens if this process dies, or, if there is no launcher, on SIGINT and SIGTERM; with a launcher
// these signals keep their effect. A forked keeper process does this, and makes the calls of `options`. Otherwise
// processes that the steps left in the background live on as children of this process, which becomes a subreaper. Call
// this before there are threads or other children.
Capture capture(const Setup& setup, const Environment& before, const CaptureOptions& options);

}  // namespace muster::environment
