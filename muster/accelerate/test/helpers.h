#pragma once

#include <gtest/gtest.h>

#include <algorithm>

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

// A machine made up for a test: no GPU, four cores, every port free.
inline Machine plain_machine() {
  Machine machine;
  machine.cores = 4;
  machine.directory = "/here";
  machine.port_is_free = [](int) { return true; };
  return machine;
}

inline Machine with_gpus(int count) {
  Machine machine = plain_machine();
  machine.gpus = count;
  return machine;
}

inline Launch launch(const Words& words, const Machine& machine = plain_machine()) {
  auto launch = translate(parsed(words), machine);
  EXPECT_TRUE(launch) << launch.error().text();
  return launch ? *launch : Launch();
}

inline std::string refusal(const Words& words, const Machine& machine = plain_machine()) {
  auto launch = translate(parsed(words), machine);
  return launch ? "accepted" : launch.error().text();
}

inline std::string variable(const Launch& launch, std::string_view name) {
  for (const auto& [n, value] : launch.environment)
    if (n == name) return value;
  return "<unset>";
}

// The value of an option of `muster run`; "" for a flag.
inline std::string option(const Launch& launch, const std::string& name) {
  for (const std::string& word : launch.arguments) {
    if (word == "--" + name) return "";
    if (word.starts_with("--" + name + "=")) return word.substr(name.size() + 3);
  }
  return "<absent>";
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
  auto launch = translate(configured(words, yaml), machine);
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
