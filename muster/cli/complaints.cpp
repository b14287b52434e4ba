#include "muster/cli/complaints.h"

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/base/usage_error.h"
#include "muster/cli/suggestions.h"
#include "muster/cli/values.h"
#include "muster/cli/verbs.h"

namespace muster::cli {
namespace {

// argparse's errors start with "argument --a-b/--a_b: ".
Error complaint(const Option& option, std::string_view text) {
  return usage_error("argument {}: {}", muster::join(spellings(option), "/"), text);
}

std::string where(const Option& option, Origin source) {
  return source == Origin::kVariable ? pet_variable(option) : dashed(option);
}

}  // namespace

Error Complaints::ambiguous(std::string_view word, const std::vector<std::string>& could_be) const {
  const std::string names = muster::join(could_be, ", ");
  if (dialect_ == Dialect::kArgparse) return usage_error("ambiguous option: {} could match {}", word, names);
  return {ErrorKind::kUsage, fmt::format("option '{}' is ambiguous", word), fmt::format("it could be {}", names)};
}

Error Complaints::not_a_number(const Option& option, std::string_view type, const std::string& value,
                               Origin source) const {
  if (dialect_ == Dialect::kArgparse)
    return complaint(option, fmt::format("invalid {} value: {}", type, python_repr(value)));
  const std::string_view number = type == "int" ? "whole number" : "number";
  return {ErrorKind::kUsage, fmt::format("{}: '{}' is not a {}", where(option, source), value, number),
          source == Origin::kVariable ? fmt::format("set it to a {}, or unset it", number)
                                      : fmt::format("write {} {}", dashed(option), option.metavar)};
}

Error Complaints::no_such_choice(const Option& option, const std::string& value, Origin source) const {
  auto choices = split(option.choices, '|');
  std::vector<std::string> shown;
  shown.reserve(choices.size());
  for (std::string_view choice : choices)
    shown.push_back(dialect_ == Dialect::kArgparse ? python_repr(choice) : std::string(choice));
  std::string list = muster::join(shown, ", ");
  if (dialect_ == Dialect::kArgparse)
    return complaint(option, fmt::format("invalid choice: {} (choose from {})", python_repr(value), list));
  return {ErrorKind::kUsage, fmt::format("{}: '{}' is not supported", where(option, source), value),
          fmt::format("choose {}", list)};
}

Error Complaints::missing_value(const Option& option) const {
  if (dialect_ == Dialect::kArgparse) return complaint(option, "expected one argument");
  return {ErrorKind::kUsage, fmt::format("option '{}' needs a value", dashed(option)),
          fmt::format("write {} {}", dashed(option), option.metavar)};
}

Error Complaints::takes_no_value(const Option& option, const std::string& value) const {
  if (dialect_ == Dialect::kArgparse) return complaint(option, "ignored explicit argument " + python_repr(value));
  return {ErrorKind::kUsage, fmt::format("option '{}' does not take a value", dashed(option)),
          fmt::format("leave out '{}'", value)};
}

Error Complaints::no_such_word(const std::string& word) const {
  const VerbInfo& verb = info(verb_);
  const auto nearest = nearest_word(word, split(verb.choices, '|'));
  return {ErrorKind::kUsage, fmt::format("'{}' is not supported", word),
          nearest ? fmt::format("did you mean 'muster {} {}'?", verb.name, *nearest)
                  : fmt::format("choose {}", verb.choices)};
}

Error Complaints::took_the_script(const Option& option, const std::string& script) const {
  return {ErrorKind::kUsage, fmt::format("nothing to run: option '{}' took {} as its value", dashed(option), script),
          fmt::format("write muster {} {} {} {}", info(verb_).name, dashed(option), option.metavar, script)};
}

Error Complaints::unknown_option(const std::string& word, const std::vector<std::string>& arguments) const {
  const std::string typed = word.substr(0, word.find('='));
  Error error = usage_error("unknown option '{}'", typed);
  std::string dashes = typed;
  std::replace(dashes.begin(), dashes.end(), '_', '-');
  const std::string name = dashes.substr(std::min(dashes.find_first_not_of('-'), dashes.size()));
  if (name == "use-env") {  // an option of torch.distributed.launch
    error.hint = "leave it out: workers get LOCAL_RANK and no --local-rank argument";
    return error;
  }
  if (auto meant = known_elsewhere(typed); meant && option(*meant).in(verb_)) {
    error.hint = fmt::format("write {} {}", dashed(option(*meant)), option(*meant).metavar);
    return error;
  }
  const auto script =
      std::find_if(arguments.begin(), arguments.end(), [](const auto& w) { return w.ends_with(".py"); });
  const std::string of_script =
      script == arguments.end() ? "" : fmt::format("if it is an option of {0}, write it after {0}; ", *script);
  std::vector<std::string> resembled;
  for (const Option* option : resembled_options(verb_, name)) resembled.push_back(fmt::format("'{}'", dashed(*option)));
  if (!resembled.empty()) {
    error.hint = fmt::format("did you mean {}?", muster::join(resembled, " or "));
    return error;
  }
  const std::string help = dashed(option(option(Opt::kHelpAll).in(verb_) ? Opt::kHelpAll : Opt::kHelp));
  error.hint = fmt::format("{}'muster {} {}' lists all options", of_script, info(verb_).name, help);
  return error;
}

}  // namespace muster::cli
