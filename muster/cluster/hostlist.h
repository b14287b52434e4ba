#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster::cluster {

inline constexpr size_t kMaxHosts = 65536;

// The pieces between the commas that stand outside of brackets, trimmed; brackets are paired. An empty piece, and so an
// empty text, is an error.
Result<std::vector<std::string_view>> split_hostlist(std::string_view text);

// The names of one piece, "r[1-2]n[01-04]": the last bracket counts fastest. More than `limit` is an error, found before
// anything is expanded.
Result<std::vector<std::string>> expand_piece(std::string_view piece, size_t limit);

// "n1", "user@n1.example.org", "fe80::1%eth0": what ssh may safely be given as a host, by its characters alone.
Result<void> check_host_name(std::string_view name);

}  // namespace muster::cluster
