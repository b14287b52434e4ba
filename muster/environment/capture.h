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
  int launcher = -1;  // a descriptor that can be read when whoever wants this is gone; -1: none
  std::function<void(const std::string& step)> slow = nullptr;    // after a second, then at every further step
  std::function<void(std::string_view bytes)> printed = nullptr;  // what the steps print, as it comes
};

struct Capture {
  // kUsage: a step failed; kTimeout, kPeer (the launcher is gone), kInterrupted, kSystem
  Result<Environment> environment;
  std::string output;  // the end of what the steps printed, whole lines
};

// Does what `setup` says, in one shell, beginning with the environment `before`; returns what it left. Variables of
// setup.set are there from the beginning, and again on top in the end.
// Blocks until the shell has ended, or until the time is over or the launcher gone: then everything that it started is
// killed, and likewise when this process dies, however: a keeper, forked off for that, sees to it, and makes the calls of
// `options`. So it is on SIGINT and SIGTERM where there is no launcher; with one, they do what they did before.
// Otherwise what the steps left in the background goes on, as children of this process, which becomes a
// subreaper. Call it before there are threads and other children.
Capture capture(const Setup& setup, const Environment& before, const CaptureOptions& options);

}  // namespace muster::environment
