#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/cluster/starter.h"
#include "muster/cluster/surroundings.h"

namespace muster::cluster::pbs {

// pbs_tmrsh and pbs_attach, which start processes on other nodes, if there are such. On PATH, else where pbs.conf says
// that PBS is installed, else in /opt/pbs: modules and containers often change PATH.
Tools find_tools(const GetEnv& getenv, const FindProgram& find_program, const ReadFile& read_file);

// The value of a line "PBS_EXEC=/opt/pbs" of /etc/pbs.conf; empty where there is none. Pure.
std::string pbs_exec(std::string_view conf);

}  // namespace muster::cluster::pbs
