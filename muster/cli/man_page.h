#pragma once

#include <string>

namespace muster::cli {

// muster(1) in roff, from the tables of verbs and options.
std::string man_page();

}  // namespace muster::cli
