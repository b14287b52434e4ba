#include "muster/cli/man_page.h"

#include <fmt/format.h>

#include "muster/base/strings.h"
#include "muster/base/version.h"
#include "muster/cli/accelerate_options.h"
#include "muster/cli/help.h"
#include "muster/cli/verbs.h"
#include "muster/job/worker_env.h"

namespace muster::cli {
namespace {

constexpr std::string_view kDate = "2026-11-15";

// Escapes text for roff, so that hyphens stay hyphens and no character is taken for an escape or a request.
std::string roff(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("…")) {
      out += "...";
      i += std::string_view("…").size() - 1;
    } else if (text[i] == '-') {
      out += "\\-";
    } else if (text[i] == '\\') {
      out += "\\e";
    } else if (text[i] == '"') {
      out += "\\(dq";
    } else if ((text[i] == '.' || text[i] == '\'') && (i == 0 || text[i - 1] == '\n')) {
      out += "\\&";
      out += text[i];
    } else {
      out += text[i];
    }
  }
  return out;
}

// Each sentence starts a new line, as roff expects, and lines stay short.
std::string paragraph(std::string_view text) {
  std::string lines;
  while (true) {
    size_t end = text.find(". ");
    lines += roff(wrap(text.substr(0, end == std::string_view::npos ? end : end + 1), 0, 70));
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 2);
  }
}

std::string entry(std::string_view title, std::string_view text) {
  return fmt::format(".TP\n.B {}\n{}", roff(title), paragraph(text));
}

std::string verb_section(const VerbInfo& verb) {
  std::string text = fmt::format(".SS muster {}\n{}", verb.name, paragraph(verb.description));
  if (!verb.details.empty()) text += ".PP\n" + paragraph(verb.details);
  text += ".PP\nExamples:\n";
  for (const Example& example : verb.examples) text += entry(example.command, example.meaning);
  return text;
}

// The verbs that have the option, if they are not the three that most options have.
std::string verbs_with(const Option& option) {
  if (option.id == Opt::kHelp) return " (Every verb.)";
  std::vector<std::string> names;
  for (const VerbInfo& verb : verbs())
    if (option.in(verb.verb)) names.emplace_back(verb.name);
  const std::vector<std::string> usual = {"run", "torchrun", "launch"};
  return names == usual ? "" : fmt::format(" (Only {}.)", join(names, ", "));
}

std::string option_sections() {
  std::string text;
  for (OptionGroup group : option_groups()) {
    text += fmt::format(".SS {}\n", group_title(group));
    for (const Option& option : options())
      if (option.group == group)
        text += entry(option_heading(option),
                      option_text(option, option.in(Verb::kRun) ? Verb::kRun : Verb::kTorchrun) + verbs_with(option));
  }
  return text;
}

std::string accelerate_sections() {
  std::string text;
  for (accelerate::Group group : accelerate::shown_groups()) {
    text += fmt::format(".SS accelerate launch: {}\n", accelerate::group_title(group));
    for (const accelerate::Option& option : accelerate::options())
      if (option.group == group)
        text += entry(option_heading(shown_option(option)), option_text(shown_option(option), Verb::kAccelerate));
  }
  return text;
}

std::string exit_section() {
  std::string text = ".SH EXIT STATUS\n";
  text += entry("0", "All workers exited with 0.");
  text += entry("2", "The command line is wrong. Nothing was started.");
  text += entry("125", "muster itself failed: too few nodes came, a node was lost, or the host of the job is gone.");
  text += entry("126, 127", "The program is not executable, or does not exist.");
  text += entry("any other", "The exit code of the worker that failed first, or 128 + n if signal n ended it.");
  return text + ".PP\n" +
         paragraph("muster torchrun and muster launch use torchrun's codes: 1 for a failure, 2 for usage.");
}

}  // namespace

std::string man_page() {
  std::string text = fmt::format(".TH MUSTER 1 {} \"muster {}\" \"User Commands\"\n", kDate, version());
  text += ".SH NAME\nmuster \\- run a program on every GPU of one machine or of many, as one job\n.SH SYNOPSIS\n";
  for (const VerbInfo& verb : verbs()) {
    const std::string_view second = verb.verb == Verb::kAccelerate ? " launch" : "";
    text += fmt::format(".B muster {}{}\n[option...]{}{}\n", verb.name, second, verb.synopsis.empty() ? "" : " ",
                        roff(verb.synopsis));
    if (verb.verb != Verb::kHelp) text += ".br\n";
  }
  text += ".SH DESCRIPTION\n" + paragraph(
                                    "muster starts the workers of a distributed program and gives each its rank and "
                                    "the address of the store in which they meet. It shows their output, and when the "
                                    "job fails it says which worker failed first and why. muster run takes all of "
                                    "torchrun's options.");
  text += ".SH VERBS\n";
  for (const VerbInfo& verb : verbs()) text += verb_section(verb);
  text += ".SH OPTIONS\n" + paragraph(
                                "Options come before the program. --a-b may be written --a_b, and may be shortened "
                                "if that is unambiguous. A variable in brackets sets the default of its option. An "
                                "option without a list of verbs belongs to run, torchrun and launch.");
  text += option_sections() + accelerate_sections() + exit_section() + ".SH ENVIRONMENT\n";
  for (const job::Variable& variable : job::declared_variables())
    text += entry(variable.name, fmt::format("{} ({}.)", variable.meaning, variable.set_by));
  return text + ".SH SEE ALSO\n.BR ssh (1),\n.BR srun (1)\n";
}

}  // namespace muster::cli
