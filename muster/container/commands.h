#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/container/plan.h"
#include "muster/process/command.h"

// The command lines of the runtimes. Everything here is pure; a folder each has what is particular to one of them.
namespace muster::container {

using Words = std::vector<std::string>;

// A command that says in which directory the runtime keeps its containers, and how to read its answer (empty: it cannot be
// understood). An empty command: plan.node.storage is that directory already.
Words storage_question(const Plan& plan);
std::string read_storage(Kind kind, const process::CommandOutput& answer);

// How to learn whether the named container exists: by a path, or by the exit code of a command.
struct Existence {
  std::string path = {};
  Words command = {};
};
Existence existence(const Plan& plan);

// The name that a container has on this node until it is whole. Other nodes use other names, and `enroot list` shows none.
std::string making_name(const Plan& plan);
// Makes the container under making_name(), which must be free, one command after the other.
std::vector<Words> creation(const Plan& plan);
// Gives the container its own name; fails if another container has it. Empty: the container is a directory to be renamed.
Words naming(const Plan& plan);
// Removes the container `making` if there is one.
Words removal(const Plan& plan, const std::string& making);

// Where a kept container is, once it exists: as a place, or by what a command prints.
struct Location {
  Place place = {};
  Words command = {};    // prints the directory
  Words variables = {};  // prints what its image sets, NAME=value a line
};
Location location(const Plan& plan);

// What fetches the image to this node, so that workers find it; empty: whoever runs it first does, or nobody needs to.
// `known` says by its exit code that it is here already.
struct Fetching {
  Words known = {};
  Words command = {};
};
Fetching fetching(const Plan& plan);

struct Worker {
  Words argv = {};               // argv[0]: the program, found inside
  Environment environment = {};  // complete
  Environment from_node = {};    // what of it the node has anyway; the rest is the worker's own
  bool bare = false;             // of the node's variables none goes inside
  bool reads_stdin = false;
  bool terminal = false;  // one of its streams is one
};
// What is executed for it, with the environment that is to be executed with.
struct CommandLine {
  Words argv = {};  // argv[0]: the runtime's program
  Environment environment = {};
};
CommandLine worker_command(const Plan& plan, const Worker& worker);

// One run inside that tells what there is: see read_probe(). `environment`: of this process.
CommandLine probe_command(const Plan& plan, const Environment& environment, const std::string& python);

// The job's containers that are left on this node, one a line, and what removes them; empty: there can be none.
Words list_leftovers(const Plan& plan);
Words remove_leftovers(const Plan& plan, const Words& ids);
// What ends the use of a kept container that location() began; may be empty.
Words release(const Plan& plan);

// What the probe printed.
struct Probe {
  std::string python;  // empty: the image has none
  std::set<std::string> variables;
};
Probe read_probe(std::string_view output);

}  // namespace muster::container
