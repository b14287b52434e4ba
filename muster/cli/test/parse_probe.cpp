// Takes command lines apart as `muster torchrun` does, for comparison with argparse: one JSON object a line in
// ({"verb", "args", "env"}), one out ({"exit"} or {"values"}).
#include <iostream>
#include <nlohmann/json.hpp>

#include "muster/cli/argument_parser.h"
#include "muster/cli/values.h"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;

Json value_of(const Option& option, const Parsed& parsed) {
  if (option.kind == OptionKind::kFlag) return parsed.flag(option.id);
  if (option.kind == OptionKind::kList) return parsed.list(option.id);
  if (!parsed.has(option.id)) return nullptr;
  const std::string& text = parsed.text(option.id);
  // Numbers as text: Python's have no limits.
  if (option.kind == OptionKind::kNumber) return fmt::format("{:.17g}", *python_float(text));
  return text;
}

Json answer(const Json& request) {
  const Verb verb = request.at("verb") == "launch" ? Verb::kLaunch : Verb::kTorchrun;
  const auto environment = request.at("env").get<std::map<std::string, std::string>>();
  GetEnv getenv = [&](const std::string& name) -> std::optional<std::string> {
    auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  };
  if (malformed_flag_variable(verb, getenv)) return {{"exit", 1}};
  auto parsed = parse_arguments(verb, request.at("args").get<std::vector<std::string>>(), getenv);
  if (!parsed) return {{"exit", exit_code(parsed.error())}, {"error", parsed.error().text()}};
  if (parsed->immediate) return {{"exit", 0}};
  Json values;
  for (const Option& option : options())
    if (option.in(verb) && option.id != Opt::kHelp && !option.exact)
      values[destination(option)] = value_of(option, *parsed);
  values["training_script"] = parsed->words[0];
  values["training_script_args"] = std::vector<std::string>(parsed->words.begin() + 1, parsed->words.end());
  return {{"values", values}};
}

}  // namespace
}  // namespace muster::cli

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);)
    std::cout << muster::cli::answer(nlohmann::ordered_json::parse(line)).dump() << std::endl;
}
