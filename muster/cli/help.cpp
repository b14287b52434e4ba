#include "muster/cli/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/cli/accelerate_options.h"
#include "muster/cli/argument_parser.h"
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

std::string entry(const Option& option, Verb verb, const TextStyle& style) {
  return fmt::format("  {}\n", option_heading(option)) + wrap(option_text(option, verb), 6, style.width);
}

std::string_view default_of(const Option& option, Verb verb) {
  if (verb == Verb::kRun && option.run_default != nullptr) return option.run_default;
  return option.default_value != nullptr ? option.default_value : "";
}

// The summary is beside the heading, or below it if the heading is too long.
std::string short_entry(const Option& option, Verb verb, const TextStyle& style) {
  constexpr size_t kColumn = 24;  // argparse's
  std::string summary(first_sentence(option.help));
  if (auto value = default_of(option, verb); !value.empty()) summary += fmt::format(" (default: {})", value);
  const std::string text = wrap(summary, kColumn, style.width);
  const std::string heading = "  " + option_heading(option);
  const size_t length = count_characters(heading);
  if (length + 2 > kColumn) return heading + "\n" + text;
  return heading + text.substr(length);
}

bool has_more(Verb verb) { return option(Opt::kHelpAll).in(verb); }

// The common options of a verb that has many options; all options of any other verb.
std::string short_options(Verb verb, const TextStyle& style) {
  std::string text = heading(has_more(verb) ? "Common options:" : "Options:", style);
  const std::vector<Option> all = options_of(verb);
  for (OptionGroup group : option_groups())
    for (const Option& option : all)
      if (option.in(verb) && option.group == group && (option.common || !has_more(verb)))
        text += short_entry(option, verb, style);
  return text;
}

std::string table_options(Verb verb, const TextStyle& style) {
  std::string text;
  for (OptionGroup group : option_groups()) {
    std::string block;
    for (const Option& option : options())
      if (option.in(verb) && option.group == group) block += entry(option, verb, style);
    if (!block.empty()) text += heading(fmt::format("{}:", group_title(group)), style) + block + "\n";
  }
  return text;
}

// The flags of `accelerate launch`, from its own table.
std::string accelerate_options(const TextStyle& style) {
  std::string text;
  for (accelerate::Group group : accelerate::shown_groups()) {
    text += heading(fmt::format("{}:", accelerate::group_title(group)), style);
    for (const accelerate::Option& option : accelerate::options())
      if (option.group == group) text += entry(shown_option(option), Verb::kAccelerate, style);
    text += "\n";
  }
  return text;
}

std::string command(const VerbInfo& about, std::string_view program) {
  return fmt::format("{}{}", program, about.verb == Verb::kAccelerate ? " launch" : "");
}

std::string usage(const VerbInfo& about, std::string_view program, const TextStyle& style) {
  if (dialect_of(about.verb) == Dialect::kArgparse) return argparse_usage(about.verb, program, style.width);
  return fmt::format("usage: {} [OPTION…]{}{}\n", command(about, program), about.synopsis.empty() ? "" : " ",
                     about.synopsis);
}

std::string short_help(const VerbInfo& about, std::string_view program, const TextStyle& style) {
  constexpr size_t kMostExamples = 5;
  std::string text = usage(about, program, style) + "\n" + wrap(about.description, 0, style.width) + "\n" +
                     examples(about.examples.first(std::min(kMostExamples, about.examples.size())), style) +
                     short_options(about.verb, style);
  if (!has_more(about.verb)) return text;
  return text + "\n" +
         wrap(fmt::format("Options come before PROGRAM. {} --help-all shows all options.", command(about, program)), 0,
              style.width) +
         "The manual is `man muster`, or `muster man | man -l -`.\n";
}

// How options are written.
std::string closing(Verb verb) {
  const std::string text = "Options come before PROGRAM; everything after it belongs to PROGRAM. ";
  if (verb == Verb::kAccelerate)
    return text +
           "--a_b may be written --a-b, and may not be shortened. The options that `muster run` has and accelerate "
           "and torchrun do not (--hosts, --container, --prologue, --env, --label, --report, --dry-run …) work here "
           "too. A PET_* variable counts if accelerate has no flag for it.";
  return text +
         "--a-b may be written --a_b, and may be shortened if that is unambiguous. A variable in brackets sets the "
         "default of its option.";
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
  if (auto value = default_of(option, verb); !value.empty()) text += fmt::format(" Default: {}.", value);
  if (option.reads_environment) text += fmt::format(" [{}]", pet_variable(option));
  return text;
}

std::string general_help(const TextStyle& style) {
  std::string text = "usage: muster VERB [OPTION…] …\n\n";
  text += wrap(
      "muster runs your program on every GPU of one machine, or of many, as one job. It replaces torchrun and "
      "accelerate launch: your scripts and options stay the same. It starts at once, labels the output of each "
      "worker, and when the job fails says which worker failed first and why.",
      0, style.width);
  text += "\n" + examples(info(Verb::kRun).examples.first(3), style);
  text += wrap("Inside a Slurm or PBS job, `muster run train.py` uses all nodes of the job.", 0, style.width);
  text += "\n" + heading("Verbs:", style);
  for (const VerbInfo& verb : verbs()) text += fmt::format("  {:<12}{}\n", verb.name, verb.summary);
  return text + "\nmuster VERB --help explains a verb.\n";
}

std::string verb_help(Verb verb, std::string_view program, Detail detail, const TextStyle& style) {
  const VerbInfo& about = info(verb);
  if (detail == Detail::kCommon && dialect_of(verb) == Dialect::kMuster) return short_help(about, program, style);
  std::string text = usage(about, program, style) + "\n" + wrap(about.description, 0, style.width) + "\n";
  if (!about.details.empty()) text += wrap(about.details, 0, style.width) + "\n";
  text += examples(about.examples, style) + table_options(verb, style);
  if (verb == Verb::kAccelerate) text += accelerate_options(style);
  return text + wrap(closing(verb), 0, style.width);
}

std::optional<Detail> asks_for_help(std::optional<Opt> option) {
  if (option == Opt::kHelpAll) return Detail::kAll;
  return option == Opt::kHelp ? std::optional(Detail::kCommon) : std::nullopt;
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
