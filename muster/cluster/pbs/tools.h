#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/cluster/adapter.h"

namespace muster::cluster::pbs {

// Where PBS has the commands that start processes on other nodes; empty: it has none.
struct Tools {
  std::string tmrsh;   // pbs_tmrsh
  std::string attach;  // pbs_attach
  bool operator==(const Tools&) const = default;
};

using FindProgram = std::function<Result<std::string>(const std::string& name)>;  // through PATH, or by its own path

// On PATH, else where pbs.conf says that PBS is installed, else in /opt/pbs. Modules and containers often change PATH.
Tools find_tools(const GetEnv& getenv, const FindProgram& find_program, const ReadFile& read_file);

// The value of a line "PBS_EXEC=/opt/pbs" of /etc/pbs.conf; empty where there is none. Pure.
std::string pbs_exec(std::string_view conf);

}  // namespace muster::cluster::pbs
