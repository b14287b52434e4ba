#include <nlohmann/json.hpp>

#include "muster/cli/commands.h"
#include "muster/cli/text_layout.h"
#include "muster/job/worker_env.h"

namespace muster::cli {
namespace {

std::string as_json() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const job::Variable& variable : job::declared_variables())
    list.push_back({{"name", variable.name}, {"set_by", variable.set_by}, {"meaning", variable.meaning}});
  for (const Option& option : options()) {
    if (!option.reads_environment) continue;
    list.push_back(
        {{"name", pet_variable(option)}, {"set_by", job::kSetByYou}, {"meaning", "default of " + dashed(option)}});
  }
  return list.dump(2) + "\n";
}

std::string as_text(const TextStyle& style) {
  std::string text;
  std::string_view last;
  for (const job::Variable& variable : job::declared_variables()) {
    if (variable.set_by != last) text += fmt::format("{}Set by {}:\n", text.empty() ? "" : "\n", variable.set_by);
    last = variable.set_by;
    text += fmt::format("  {}\n", variable.name) + wrap(variable.meaning, 6, style.width);
  }
  text += fmt::format("\nDefaults of options, set by {}:\n", job::kSetByYou);
  for (const Option& option : options())
    if (option.reads_environment) text += fmt::format("  {:<34}{}\n", pet_variable(option), dashed(option));
  return text;
}

}  // namespace

int env_command(const Parsed& parsed) { return print(parsed.flag(Opt::kJson) ? as_json() : as_text(style_of(1))); }

}  // namespace muster::cli
