#pragma once

#include <string_view>

namespace muster::job {

// How a job ended.
enum class Ending {
  kSucceeded,
  kWorkerFailed,
  kCrashLoop,      // a worker failed in the same way again and again, soon after its start
  kSignalled,      // muster was asked to end it
  kNodeLost,       // too few nodes were left
  kJoinTimeout,    // too few nodes came
  kSetUpFailed,    // a node could not be made ready
  kNotFound,       // a node lacks the program that the job is to run
  kNotExecutable,  // a node has that program and cannot run it
  kMusterFailed,
};

// As in JSON and in the log: "worker-failed", "join-timeout", …
std::string_view ending_name(Ending ending);

}  // namespace muster::job
