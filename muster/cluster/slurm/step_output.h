#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/cluster/slurm/words.h"

namespace muster::cluster::slurm {

// What one srun and its tasks say, as what it means for the nodes that it starts agents on. A task numbers its lines,
// and says or is said to be on a node at some time: what it said before is kept until then. No I/O.
class StepOutput {
 public:
  // `position`: of a node that srun is still responsible for.
  struct Handlers {
    std::function<void(int position, const Greeting& greeting)> greeted;
    std::function<void(int position, std::string_view line)> said;  // its agent, or slurmstepd in its place
    std::function<void(int position, const TaskEnd& end)> ended;
    std::function<void(int position, const std::string& why)> waits;  // srun, for resources
  };

  // `by_name`: the position of every node.
  StepOutput(std::map<std::string, int> by_name, Handlers handlers);

  void add_output(std::string_view bytes);  // of stdout, as it comes
  void add_line(std::string_view line);     // of stderr

  // Those that srun is responsible for: all, until forgotten.
  const std::set<int>& positions() const { return positions_; }
  void forget(int position) { positions_.erase(position); }

  // What srun itself said that was no more than text; the end of it.
  const std::string& errors() const { return errors_; }

 private:
  void claim(int task, int position);
  void task_said(const TaskLine& line);
  void task_ended(const TaskEnd& end);

  const std::map<std::string, int> by_name_;
  const Handlers handlers_;
  std::set<int> positions_;
  std::map<int, int> by_task_;                         // positions, as far as tasks have said where they run
  std::map<int, std::vector<std::string>> unclaimed_;  // lines of others
  std::string output_;                                 // of stdout, not a whole line yet
  std::string errors_;
};

}  // namespace muster::cluster::slurm
