#include "muster/cluster/slurm/step_output.h"

namespace muster::cluster::slurm {
namespace {

constexpr size_t kKeptErrors = 4 << 10;
constexpr size_t kLongestLine = 4 << 10;  // of stdout
constexpr size_t kMostUnclaimed = 64;     // lines of a task whose node is not known yet

}  // namespace

StepOutput::StepOutput(std::map<std::string, int> by_name, Handlers handlers)
    : by_name_(std::move(by_name)), handlers_(std::move(handlers)) {
  for (const auto& [name, position] : by_name_) positions_.insert(position);
}

void StepOutput::add_output(std::string_view bytes) {
  output_ += bytes;
  size_t end;
  while ((end = output_.find('\n')) != std::string::npos) {
    const std::string line = output_.substr(0, end);
    output_.erase(0, end + 1);
    auto task = parse_task_line(line);
    auto greeting = task ? parse_greeting(task->text) : std::nullopt;
    auto node = greeting ? by_name_.find(greeting->node) : by_name_.end();
    if (node == by_name_.end()) continue;
    claim(task->task, node->second);
    if (positions_.contains(node->second)) handlers_.greeted(node->second, *greeting);
  }
  if (output_.size() > kLongestLine) output_.clear();
}

// Now it is known which node a task is on, and so whose lines these are.
void StepOutput::claim(int task, int position) {
  by_task_[task] = position;
  auto lines = unclaimed_.extract(task);
  if (!lines || !positions_.contains(position)) return;
  for (const std::string& line : lines.mapped()) handlers_.said(position, line);
}

void StepOutput::add_line(std::string_view line) {
  if (auto task = parse_task_line(line)) return task_said(*task);
  if (auto end = parse_task_end(line)) return task_ended(*end);
  if (auto why = why_it_waits(line))
    for (int position : positions_) handlers_.waits(position, *why);
  errors_ += line;
  errors_ += '\n';
  if (errors_.size() > kKeptErrors) errors_.erase(0, errors_.size() - kKeptErrors);
}

void StepOutput::task_said(const TaskLine& line) {
  auto position = by_task_.find(line.task);
  if (position == by_task_.end()) {
    auto& lines = unclaimed_[line.task];
    if (lines.size() < kMostUnclaimed) lines.emplace_back(line.text);
  } else if (positions_.contains(position->second)) {
    handlers_.said(position->second, line.text);
  }
}

void StepOutput::task_ended(const TaskEnd& end) {
  for (size_t i = 0; i < end.nodes.size(); ++i) {
    auto node = by_name_.find(end.nodes[i]);
    if (node == by_name_.end()) continue;
    if (!end.tasks.empty()) claim(end.tasks[i], node->second);
    if (positions_.contains(node->second)) handlers_.ended(node->second, end);
  }
}

}  // namespace muster::cluster::slurm
