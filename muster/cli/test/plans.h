#pragma once

#include "muster/cli/test/machine.h"

// What was planned for several nodes. Another mode fails the test.
namespace muster::cli::test {

template <typename Mode>
Mode mode_of(const Result<JobPlan>& plan) {
  if (plan && std::holds_alternative<Mode>(plan->start)) return std::get<Mode>(plan->start);
  ADD_FAILURE() << (plan ? "another mode: " + plan->mode_why : plan.error().text());
  Mode nothing;
  nothing.job.membership.emplace();
  return nothing;
}

inline launcher::FanOut fan_out(const Machine& machine, const Words& words, Verb verb = Verb::kRun) {
  return mode_of<launcher::FanOut>(machine.plan(verb, words));
}

inline launcher::Symmetric symmetric(const Machine& machine, const Words& words, Verb verb = Verb::kRun) {
  return mode_of<launcher::Symmetric>(machine.plan(verb, words));
}

// All of them; or why there is no plan.
inline std::string notes(const Machine& machine, const Words& words, Verb verb = Verb::kRun) {
  auto plan = machine.plan(verb, words);
  if (!plan) return plan.error().text();
  std::string all;
  for (const Note& note : plan->notes) all += note.text + "\n";
  return all;
}

// What the nodes are told to set: "A=1".
inline Words env_of(const Result<JobPlan>& plan) {
  Words all;
  EXPECT_TRUE(plan) << plan.error().text();
  if (plan)
    for (const auto& [name, value] : plan->for_nodes.env) all.push_back(name + "=" + value.value_or("<here>"));
  return all;
}

inline std::vector<std::string> names(const std::vector<cluster::Host>& hosts) {
  std::vector<std::string> all;
  all.reserve(hosts.size());
  for (const cluster::Host& host : hosts) all.push_back(host.name);
  return all;
}

}  // namespace muster::cli::test
