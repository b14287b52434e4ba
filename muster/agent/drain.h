#pragma once

#include <vector>

#include "muster/net/event_loop.h"
#include "muster/output/console.h"
#include "muster/output/output.h"
#include "muster/output/uplink.h"

namespace muster::agent {

// Before an agent ends: what its workers wrote reaches files and console. Runs the loop meanwhile; all it is given must
// outlive it.
class Drain {
 public:
  // For the reader of a console that belongs to a job that has been asked to end, or has not begun.
  static constexpr Duration kFlushTime = std::chrono::seconds(5);

  // `stop_signals`: grows when a signal asks this process to end.
  Drain(net::EventLoop& loop, output::Console& console, output::Uplink* uplink, const std::vector<int>& stop_signals)
      : loop_(loop), console_(console), uplink_(uplink), stop_signals_(stop_signals) {}

  // A slow disk may take its time; a file system that does nothing is left, with a warning.
  void wait_for_files(output::Output& output);
  // A slow reader may take its time, unless a signal has asked this process to end; a further signal ends the wait.
  void wait_for_console();

 private:
  bool console_is_idle();

  net::EventLoop& loop_;
  output::Console& console_;
  output::Uplink* uplink_;
  const std::vector<int>& stop_signals_;
};

}  // namespace muster::agent
