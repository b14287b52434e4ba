#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/report/report.h"

namespace muster::report {

// A node's outcomes on their way to whoever judges the whole job. Times are of the sender's steady clock.
std::string encode_outcomes(const std::vector<WorkerOutcome>& outcomes);

// `offset`: the sender's steady clock minus ours; times in the result are ours.
Result<std::vector<WorkerOutcome>> decode_outcomes(std::string_view bytes, Duration offset);

}  // namespace muster::report
