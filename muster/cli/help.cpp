#include "muster/cli/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/cli/accelerate_options.h"
#include "muster/cli/verbs.h"

namespace muster::cli {
namespace {

std::string heading(std::string_view text, const TextStyle& style) {
  return style.bold ? fmt::format("\033[1m{}\033[0m\n", text) : fmt::format("{}\n", text);
}

std::string examples(std::span<const Example> examples, const TextStyle& style) {
  std::string text = heading("Examples:", style);
  for (const Example& example : examples)
    text += fmt::format("  {}\n", example.command) + wrap(example.meaning, 6, style.width);
  return text + "\n";
}

std::string group_options(Verb verb, OptionGroup group, const TextStyle& style) {
  std::string text;
  for (const Option& option : options()) {
    if (!option.in(verb) || option.group != group) continue;
    text += fmt::format("  {}\n", option_heading(option)) + wrap(option_text(option, verb), 6, style.width);
  }
  return text;
}

// The flags of `accelerate launch`, from its own table.
std::string accelerate_options(const TextStyle& style) {
  std::string text;
  for (accelerate::Group group : accelerate::shown_groups()) {
    text += heading(fmt::format("{}:", accelerate::group_title(group)), style);
    for (const accelerate::Option& option : accelerate::options()) {
      if (option.group != group) continue;
      const Option shown = shown_option(option);
      text +=
          fmt::format("  {}\n", option_heading(shown)) + wrap(option_text(shown, Verb::kAccelerate), 6, style.width);
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string option_heading(const Option& option) {
  std::string text =
      option.short_flag != 0 ? fmt::format("-{}, {}", option.short_flag, dashed(option)) : dashed(option);
  return option.metavar.empty() ? text : fmt::format("{} {}", text, option.metavar);
}

std::string option_text(const Option& option, Verb verb) {
  std::string text(option.help);
  if (!option.choices.empty() && option.metavar != option.choices) {
    std::string choices(option.choices);
    for (size_t bar = choices.find('|'); bar != std::string::npos; bar = choices.find('|', bar))
      choices.replace(bar, 1, ", ");
    text += fmt::format(" One of {}.", choices);
  }
  if (verb == Verb::kRun && option.run_default != nullptr) {
    text += fmt::format(" Default: {}.", option.run_default);
  } else if (option.default_value != nullptr && *option.default_value != 0) {
    text += fmt::format(" Default: {}.", option.default_value);
  }
  if (option.reads_environment) text += fmt::format(" [{}]", pet_variable(option));
  return text;
}

std::string general_help(const TextStyle& style) {
  std::string text = "usage: muster VERB [OPTION…] …\n\n";
  text += wrap(
      "muster runs one program on every device of one machine or many as one job: it starts the workers, gives each "
      "its rank, "
      "shows what they write and says what failed. What you gave to torchrun, give to muster run.",
      0, style.width);
  text += "\n" + heading("Verbs:", style);
  for (const VerbInfo& verb : verbs()) text += fmt::format("  {:<12}{}\n", verb.name, verb.summary);
  text += "\n" + examples(info(Verb::kRun).examples.first(3), style);
  return text + "muster VERB --help explains a verb; muster --version prints the version.\n";
}

std::string verb_help(Verb verb, std::string_view program, const TextStyle& style) {
  const VerbInfo& about = info(verb);
  const std::string first = verb == Verb::kAccelerate ? fmt::format("{} launch", program) : std::string(program);
  std::string text =
      fmt::format("usage: {} [OPTION…]{}{}\n\n", first, about.synopsis.empty() ? "" : " ", about.synopsis);
  text += wrap(about.description, 0, style.width) + "\n";
  text += examples(about.examples, style);
  bool variables = false;
  for (OptionGroup group : option_groups()) {
    std::string block = group_options(verb, group, style);
    if (!block.empty()) text += heading(fmt::format("{}:", group_title(group)), style) + block + "\n";
    variables = variables || block.find("[PET_") != std::string::npos;
  }
  if (verb == Verb::kAccelerate) {
    text += accelerate_options(style);
    text += wrap(
        "Options come before PROGRAM; everything after it belongs to PROGRAM. --a_b may be written --a-b, and not cut "
        "short. Options of `muster run` that accelerate and torchrun do not have (--hosts, --container, --prologue, "
        "--env, --label, --report, --dry-run …) may be given too. PET_* variables count as with accelerate: for what "
        "it "
        "has no flag for.",
        0, style.width);
  } else if (about.words == Words::kProgram)
    text += wrap(
        "Options come before PROGRAM; everything after it belongs to PROGRAM. --a-b may be written --a_b and cut short "
        "if that is unambiguous.",
        0, style.width);
  if (variables) text += wrap("A variable in brackets gives the default of its option.", 0, style.width);
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

std::string argparse_usage(Verb verb, std::string_view program, int columns) {
  std::vector<std::string> parts;
  for (const Option& option : options()) {
    if (!option.in(verb)) continue;
    std::string part = "[" + spellings(option)[0];
    if (option.takes_value()) {
      std::string value = pet_variable(option).substr(4);
      if (!option.choices.empty()) {
        value = "{" + std::string(option.choices) + "}";
        std::replace(value.begin(), value.end(), '|', ',');
      }
      part += " " + value;
    }
    parts.push_back(part + "]");
  }
  const std::string head = fmt::format("usage: {}", program);
  std::string text;
  std::string line = head;
  auto add = [&](const std::string& part) {
    if (line.size() + 1 + part.size() > static_cast<size_t>(columns) - 2 && line.size() > head.size()) {
      text += line + "\n";
      line = std::string(head.size(), ' ');
    }
    line += " " + part;
  };
  for (const std::string& part : parts) add(part);
  text += line + "\n";
  return text + std::string(head.size(), ' ') + " training_script ...\n";
}

}  // namespace muster::cli
