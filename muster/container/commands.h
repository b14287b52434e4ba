#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/container/plan.h"
#include "muster/process/command.h"

// The command lines of the runtimes. All pure. Each runtime has a folder for what is special about it.
namespace muster::container {

using Words = std::vector<std::string>;

// The command that prints the directory in which the runtime keeps its containers; empty if plan.node.storage is
// already that directory. read_storage() reads the answer; empty if it cannot.
Words storage_question(const Plan& plan);
std::string read_storage(Kind kind, const process::CommandOutput& answer);

// How to find out if the named container exists: by a path, or by the exit code of a command.
struct Existence {
  std::string path = {};
  Words command = {};
};
Existence existence(const Plan& plan);

// The name of a container on this node until it is complete. Other nodes use other names. `enroot list` shows none of
// them.
std::string making_name(const Plan& plan);
// Commands that make the container under making_name(), to run one after the other. The name must be free.
std::vector<Words> creation(const Plan& plan);
// Command that gives the container its final name; fails if another container has it. Empty: rename the directory.
Words naming(const Plan& plan);
// Command that removes the container `making` if it exists.
Words removal(const Plan& plan, const std::string& making);

// Where a named container is: as a place, or by the output of a command.
struct Location {
  Place place = {};
  Words command = {};    // prints the directory
  Words variables = {};  // prints the variables of its image, one NAME=value per line
};
Location location(const Plan& plan);

// `command` fetches the image to this node; empty if the runtime does that at the first run, or if it is not needed.
// `known` exits with 0 if the image is already here.
struct Fetching {
  Words known = {};
  Words command = {};
};
Fetching fetching(const Plan& plan);

struct Worker {
  Words argv = {};               // argv[0]: the program, found inside
  Environment environment = {};  // complete
  Environment from_node = {};    // the part that the node has anyway; the rest is the worker's own
  bool bare = false;             // no variable of the node goes inside
  bool reads_stdin = false;
  bool terminal = false;  // one of its streams is a terminal
};
// The command to execute for a worker, and its environment.
struct CommandLine {
  Words argv = {};  // argv[0]: the runtime's program
  Environment environment = {};
};
CommandLine worker_command(const Plan& plan, const Worker& worker);

// A run inside the container that shows what it has: see read_probe(). `environment`: of this process.
CommandLine probe_command(const Plan& plan, const Environment& environment, const std::string& python);

// Commands that list the job's containers that are left on this node, one per line, and remove them; empty: none can be
// left.
Words list_leftovers(const Plan& plan);
Words remove_leftovers(const Plan& plan, const Words& ids);
// Command that ends the use of a named container that location() started; may be empty.
Words release(const Plan& plan);

// The output of the probe.
struct Probe {
  std::string python;  // empty: the image has no Python
  std::set<std::string> variables;
};
Probe read_probe(std::string_view output);

}  // namespace muster::container
