#include "muster/cli/accelerate_options.h"

namespace muster::cli {
namespace {

std::string_view metavar(const accelerate::Option& option) {
  using accelerate::Kind;
  if (!option.choices.empty()) return "KIND";
  if (option.name.ends_with("file")) return "FILE";
  if (option.name.ends_with("_dir")) return "DIR";
  switch (option.kind) {
    case Kind::kFlag:
      return "";
    case Kind::kInteger:
      return "N";
    case Kind::kNumber:
      return "X";
    case Kind::kBool:
    case Kind::kYesNo:
      return "true|false";
    case Kind::kThree:
      return "A,B,C";
    case Kind::kText:
      break;
  }
  return "TEXT";
}

}  // namespace

Option shown_option(const accelerate::Option& option) {
  return {.id = Opt::kCount,
          .name = option.name,
          .short_flag = option.short_flag,
          .kind = option.takes_value() ? OptionKind::kText : OptionKind::kFlag,
          .metavar = metavar(option),
          .default_value = option.default_value,
          .run_default = nullptr,
          .choices = option.choices,
          .reads_environment = false,
          .immediate = false,
          .exact = true,
          .verbs = static_cast<Verbs>(Verb::kAccelerate),
          .group = OptionGroup::kProgram,
          .help = option.help,
          .common = option.common};
}

bool accelerate_takes(const Option& option) {
  return option.in(Verb::kRun) && (option.exact || !option.in(Verb::kTorchrun)) &&
         accelerate::find_option(option.name) == nullptr;
}

std::vector<Option> options_of(Verb verb) {
  std::vector<Option> all;
  for (const Option& option : options())
    if (option.in(verb) || (verb == Verb::kAccelerate && accelerate_takes(option))) all.push_back(option);
  if (verb != Verb::kAccelerate) return all;
  for (const accelerate::Option& option : accelerate::options())
    if (option.group != accelerate::Group::kInternal) all.push_back(shown_option(option));
  return all;
}

}  // namespace muster::cli
