#include "muster/job/ending.h"

namespace muster::job {

std::string_view ending_name(Ending ending) {
  switch (ending) {
    case Ending::kSucceeded:
      return "succeeded";
    case Ending::kWorkerFailed:
      return "worker-failed";
    case Ending::kCrashLoop:
      return "crash-loop";
    case Ending::kSignalled:
      return "signalled";
    case Ending::kNodeLost:
      return "node-lost";
    case Ending::kJoinTimeout:
      return "join-timeout";
    case Ending::kSetUpFailed:
      return "set-up-failed";
    case Ending::kNotFound:
      return "not-found";
    case Ending::kNotExecutable:
      return "not-executable";
    case Ending::kMusterFailed:
      return "muster-failed";
  }
  return "";
}

}  // namespace muster::job
