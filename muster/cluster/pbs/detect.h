#pragma once

#include <optional>

#include "muster/cluster/surroundings.h"

namespace muster::cluster::pbs {

// As cluster::detect(), for PBS alone (OpenPBS, PBS Pro; Torque's variables are the same).
//
// kHead: the job's script, or the shell of an interactive job, on the first node. kTask: anything that pbsdsh or
// pbs_tmrsh has started; on the first node it has no nodefile, and `nodes` stays empty then.
//
// The hosts have no workers: a nodefile's lines are MPI processes (mpiprocs, or ppn of the old -l nodes=2:ppn=4), and
// who trains with PyTorch asks for as many as there are cores. A node has a worker a GPU, or one, unless told otherwise.
Result<std::optional<Surroundings>> detect(const GetEnv& getenv, const ReadFile& read_file);

}  // namespace muster::cluster::pbs
