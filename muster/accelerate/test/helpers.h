#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "muster/accelerate/command_line.h"
#include "muster/accelerate/config_file.h"
#include "muster/accelerate/translate.h"

namespace muster::accelerate::test {

using Words = std::vector<std::string>;

// muster's own options as far as the tests need them.
inline OwnOption own(std::string_view name) {
  if (name == "dry-run") return OwnOption::kFlag;
  for (std::string_view known : {"hosts", "hostfile", "local-nodes", "env", "label"})
    if (name == known) return OwnOption::kValue;
  return OwnOption::kUnknown;
}

inline CommandLine parsed(const Words& words) {
  auto line = parse_command_line(words, own);
  EXPECT_TRUE(line) << line.error().text();
  return line ? *line : CommandLine();
}

inline std::string complaint(const Words& words) {
  auto line = parse_command_line(words, own);
  return line ? "accepted" : line.error().text();
}

// A machine made up for a test: no GPU, four cores.
inline Machine plain_machine() {
  Machine machine;
  machine.cores = 4;
  machine.directory = "/here";
  return machine;
}

inline Machine with_gpus(int count) {
  Machine machine = plain_machine();
  machine.gpus = count;
  return machine;
}

// What a command line comes to.
struct Launch {
  job::Request request;
  std::vector<std::string> notes;
  bool uneven = false;
};

inline Result<Launch> translated(const CommandLine& line, const Machine& machine) {
  Launch made;
  made.request.words = line.program;
  for (const std::string& word : line.own)
    if (word.starts_with("--hosts=")) made.request.hosts.fill({{word.substr(8), std::nullopt}});
  auto launch = translate(line.settings, machine, made.request);
  if (!launch) return launch.error();
  made.notes = launch->notes;
  made.uneven = launch->uneven;
  return made;
}

inline Launch launch(const Words& words, const Machine& machine = plain_machine()) {
  auto launch = translated(parsed(words), machine);
  EXPECT_TRUE(launch) << launch.error().text();
  return launch ? *launch : Launch();
}

inline std::string refusal(const Words& words, const Machine& machine = plain_machine()) {
  auto launch = translated(parsed(words), machine);
  return launch ? "accepted" : launch.error().text();
}

inline std::string variable(const Launch& launch, std::string_view name) {
  return launch.request.worker_variables.get(name).value_or("<unset>");
}

// What was asked for by the name that `muster run` has for it.
inline std::string option(const Launch& launch, std::string_view name) {
  const job::Request& request = launch.request;
  const auto shown = [&](const job::Source& source, const std::string& text) {
    return source.given() ? text : "<absent>";
  };
  if (name == "nproc-per-node") return shown(request.nproc, request.nproc->text());
  if (name == "nnodes") return shown(request.nnodes, request.nnodes->text());
  if (name == "node-rank") return shown(request.node_rank, std::to_string(*request.node_rank));
  if (name == "master-addr") return shown(request.master_addr, *request.master_addr);
  if (name == "master-port") return shown(request.master_port, std::to_string(request.master_port->value_or(-1)));
  if (name == "rdzv-endpoint") return shown(request.endpoint, *request.endpoint);
  if (name == "rdzv-backend")
    return shown(request.backend, *request.backend == job::Backend::kC10d ? "c10d" : "static");
  if (name == "hostfile") return shown(request.hostfile, *request.hostfile);
  return "<unknown>";
}

// With a config file under the command line.
inline CommandLine configured(const Words& words, const std::string& yaml, Words* notes = nullptr) {
  CommandLine line = parsed(words);
  auto value = parse_config(yaml, "c.yaml");
  EXPECT_TRUE(value) << value.error().text();
  Words said;
  if (value) {
    auto applied = apply_config(*value, "c.yaml", line.settings, said);
    EXPECT_TRUE(applied) << applied.error().text();
  }
  if (notes != nullptr) *notes = said;
  return line;
}

inline Launch configured_launch(const Words& words, const std::string& yaml, const Machine& machine = plain_machine()) {
  auto launch = translated(configured(words, yaml), machine);
  EXPECT_TRUE(launch) << launch.error().text();
  return launch ? *launch : Launch();
}

inline std::string config_refusal(const std::string& text, const std::string& name = "c.yaml") {
  auto value = parse_config(text, name);
  if (!value) return value.error().text();
  Settings settings;
  Words notes;
  auto applied = apply_config(*value, name, settings, notes);
  return applied ? "accepted" : applied.error().text();
}

}  // namespace muster::accelerate::test
