#pragma once

#include <string>
#include <vector>

#include "muster/report/report.h"

namespace muster::report {

// How a worker ended, for people: "exit code 7", "SIGSEGV (invalid memory access)", "killed by the kernel: out of …".
std::string how_it_ended(const WorkerOutcome& worker);

// The same for one of the others, with why: "stopped by muster (SIGTERM)", "fell because a peer was gone (…)".
std::string fate_of(const WorkerOutcome& worker, Blame blame);

// Where the root cause died of a signal that we passed on: that, and all who did. Else empty.
std::string passed_on_text(const Report& report);

// It failed by itself while a process of the job, a child of it perhaps, was killed for memory.
bool lost_a_child_to_memory(const WorkerOutcome& worker);

// The exception a worker ended with, from its stderr or its error file; empty for none.
std::string exception_of(const WorkerOutcome& worker);

// The same in a line of the log: "exit code 1: ValueError: bad batch".
std::string failure_in_short(const WorkerOutcome& worker);

// The words that tell why: of the first exception of its chain, of the error file, or its last lines.
std::string failure_words(const WorkerOutcome& worker);

// "0.52 s", "12.3 s", "3 min 20 s", "2 h 05 min"
std::string duration_text(Duration duration);

// "rank 3", "ranks 0, 2-7"; sorts.
std::string ranks_text(std::vector<int> ranks);

std::string_view blame_name(Blame blame);  // "root-cause", "itself", "peer", "stopped", "passed-on", "none"

}  // namespace muster::report
