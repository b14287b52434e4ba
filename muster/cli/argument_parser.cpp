#include "muster/cli/argument_parser.h"

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/base/usage_error.h"
#include "muster/cli/complaints.h"
#include "muster/cli/suggestions.h"
#include "muster/cli/values.h"
#include "muster/cli/verbs.h"

namespace muster::cli {
namespace {

// An option in one word of the command line.
struct Named {
  const Option* option = nullptr;    // null: it looks like an option but is not one
  std::string spelling;              // as declared: "--nnodes", "-t"
  std::optional<std::string> value;  // "--nnodes=2", "-t3"
};

// "-5", "-.5": argparse reads these as words, because no option looks like a number.
bool looks_like_negative_number(std::string_view word) {
  if (word.ends_with('\n')) word.remove_suffix(1);
  if (word.size() < 2 || word[0] != '-') return false;
  word.remove_prefix(1);
  auto digits = [](std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  size_t point = word.find('.');
  if (point == std::string_view::npos) return digits(word);
  std::string_view fraction = word.substr(point + 1);
  return digits(word.substr(0, point)) && !fraction.empty() && digits(fraction);
}

class Parser {
 public:
  Parser(Verb verb, const std::vector<std::string>& arguments, const GetEnv& getenv)
      : verb_(verb), dialect_(dialect_of(verb)), complaints_(verb), arguments_(arguments), getenv_(getenv) {
    for (const Option& option : options()) {
      if (!option.in(verb)) continue;
      for (std::string& spelling : spellings(option)) spellings_.emplace_back(&option, std::move(spelling));
    }
  }

  Result<Parsed> parse() {
    if (dialect_ == Dialect::kArgparse) MUSTER_TRY_VOID(check_ambiguity());
    MUSTER_TRY_VOID(read_words());
    if (parsed_.immediate) return std::move(parsed_);
    MUSTER_TRY_VOID(fill_in_defaults());
    MUSTER_TRY_VOID(check_words());
    if (!unknown_.empty()) return usage_error("unrecognized arguments: {}", muster::join(unknown_, " "));
    return std::move(parsed_);
  }

 private:
  const Option* find(std::string_view spelling) const {
    for (const auto& [option, known] : spellings_)
      if (known == spelling) return option;
    return nullptr;
  }

  using Candidates = std::vector<std::pair<const Option*, std::string>>;

  // All options that start with the prefix, as (option, spelling).
  Candidates candidates(std::string_view prefix) const {
    Candidates found = candidates(prefix, false);
    const bool ours = dialect_ == Dialect::kMuster && !known_elsewhere(prefix);  // --port is not --port-range
    if (found.empty() && ours) found = candidates(prefix, true);
    return found;
  }

  Candidates candidates(std::string_view prefix, bool exact) const {
    Candidates found;
    for (const auto& [option, known] : spellings_) {
      if (option->exact != exact || !known.starts_with(prefix)) continue;
      const bool same = !found.empty() && found.back().first == option;
      if (dialect_ == Dialect::kArgparse || !same) found.emplace_back(option, known);
    }
    return found;
  }

  // The option that a word names; nothing if it is a plain word.
  Result<std::optional<Named>> classify(const std::string& word) const {
    using Answer = std::optional<Named>;
    if (word.size() < 2 || word[0] != '-') return Answer();
    if (const Option* option = find(word)) return Answer(Named{option, word, {}});
    size_t equals = word.find('=');
    std::string head = word.substr(0, equals);
    std::optional<std::string> tail;
    if (equals != std::string::npos) tail = word.substr(equals + 1);
    if (tail) {
      const Option* option = find(head);
      // --module is a flag of torchrun. With a value it can only mean --modules.
      if (option != nullptr && option->id == Opt::kModule && dialect_ == Dialect::kMuster && head == "--module")
        return Answer(Named{&cli::option(Opt::kModules), "--modules", tail});
      if (option != nullptr) return Answer(Named{option, head, tail});
    }
    if (word[1] == '-') {
      auto found = candidates(head);
      if (found.size() > 1) {
        std::vector<std::string> could_be;
        could_be.reserve(found.size());
        for (auto& [option, spelling] : found) could_be.push_back(std::move(spelling));
        return complaints_.ambiguous(word, could_be);
      }
      if (found.size() == 1) return Answer(Named{found[0].first, found[0].second, tail});
    } else if (const Option* option = find(word.substr(0, 2))) {
      return Answer(Named{option, word.substr(0, 2), word.substr(2)});
    }
    if (looks_like_negative_number(word) || word.find(' ') != std::string::npos) return Answer();
    return Answer(Named{nullptr, word, {}});
  }

  // argparse checks every word up to "--" before it acts on any, also the words of the script.
  Result<void> check_ambiguity() const {
    for (const std::string& word : arguments_) {
      if (word == "--") break;
      if (auto named = classify(word); !named) return named.error();
    }
    return {};
  }

  Result<void> read_words() {
    const bool program = info(verb_).words == Words::kProgram;
    size_t i = 0;
    while (i < arguments_.size() && !parsed_.immediate) {
      const std::string& word = arguments_[i];
      if (word == "--" && !program) {
        parsed_.words.insert(parsed_.words.end(), arguments_.begin() + i + 1, arguments_.end());
        return {};
      }
      std::optional<Named> named;
      if (word != "--") {
        MUSTER_TRY(named, classify(word));
      }
      if (named) {
        MUSTER_TRY(i, read_option(*std::move(named), i));
      } else if (program) {
        take_program(i);
        return {};
      } else {
        parsed_.words.push_back(arguments_[i++]);
      }
    }
    return {};
  }

  // The program and everything after it. The first "--", before or right after the program, is dropped.
  void take_program(size_t i) {
    const size_t end = arguments_.size();
    bool dropped = arguments_[i] == "--";
    if (dropped) ++i;
    if (i == end) return;
    parsed_.words.push_back(arguments_[i++]);
    if (!dropped && i < end && arguments_[i] == "--") {
      dropped = true;
      ++i;
    }
    if (!dropped) note_options_behind(i);
    parsed_.words.insert(parsed_.words.end(), arguments_.begin() + i, arguments_.end());
  }

  void note_options_behind(size_t i) {
    for (; i < arguments_.size(); ++i) {
      const Option* option = find(arguments_[i].substr(0, arguments_[i].find('=')));
      if (option != nullptr && belongs_to_launchers(option->id)) parsed_.behind_program.push_back(option->id);
    }
  }

  // "--module gcc,cuda/12.4 train.py": no Python module has a name like this.
  bool loads_modules(const Named& named, size_t i) const {
    if (dialect_ != Dialect::kMuster || named.spelling != "--module" || named.value || i + 1 == arguments_.size())
      return false;
    const std::string& list = arguments_[i + 1];
    return !list.starts_with('-') && list.find_first_of(",/") != std::string::npos;
  }

  // Reports word i as unknown. If an option has taken a script as its value and no .py word follows, reports that option.
  Error unknown_option(const std::string& spelling, size_t i) const {
    const std::vector<std::string> behind(arguments_.begin() + static_cast<ptrdiff_t>(i) + 1, arguments_.end());
    const bool script_follows = std::ranges::any_of(behind, [](const auto& word) { return word.ends_with(".py"); });
    if (taken_script_ != nullptr && !script_follows)
      return complaints_.took_the_script(*taken_script_, parsed_.text(taken_script_->id));
    return complaints_.unknown_option(spelling, behind);
  }

  // The option in word i and its value; returns the index of the next word. "-mt3" is -m and -t 3.
  Result<size_t> read_option(Named named, size_t i) {
    if (loads_modules(named, i)) named = Named{&cli::option(Opt::kModules), "--modules", std::nullopt};
    std::vector<std::pair<const Option*, std::optional<std::string>>> taken;
    while (true) {
      if (named.option == nullptr) {
        if (dialect_ == Dialect::kMuster) return unknown_option(named.spelling, i);
        unknown_.push_back(arguments_[i]);
        return i + 1;
      }
      const Option& option = *named.option;
      if (option.takes_value()) break;
      taken.emplace_back(&option, std::nullopt);
      if (!named.value) break;
      const Option* next = nullptr;
      if (named.spelling[1] != '-' && !named.value->empty()) next = find(std::string{'-', (*named.value)[0]});
      if (next == nullptr) return complaints_.takes_no_value(option, *named.value);
      std::string rest = named.value->substr(1);
      named = Named{next, {'-', next->short_flag}, rest.empty() ? std::nullopt : std::optional(rest)};
    }
    size_t next_word = i + 1;
    if (named.option->takes_value()) {
      if (!named.value) {
        MUSTER_TRY(const bool there, has_value_at(next_word));
        if (!there) return complaints_.missing_value(*named.option);
        named.value = arguments_[next_word++];
        if (named.value->ends_with(".py")) taken_script_ = named.option;
      }
      taken.emplace_back(named.option, named.value);
    }
    for (auto& [option, value] : taken) {
      MUSTER_TRY_VOID(store(*option, value, Origin::kOption));
      if (parsed_.immediate) break;
    }
    parsed_.before_program = named.option->id;
    return next_word;
  }

  Result<bool> has_value_at(size_t i) const {
    if (i >= arguments_.size() || arguments_[i] == "--") return false;
    MUSTER_TRY(auto named, classify(arguments_[i]));
    return !named.has_value();
  }

  Result<void> store(const Option& option, const std::optional<std::string>& value, Origin source) {
    Setting& setting = parsed_.setting(option.id);
    if (option.id == Opt::kNodeRank && value == "" && in_allocation()) {
      setting = {Origin::kDefault, {option.default_value}};
      parsed_.forgiven.push_back(option.id);
      return {};
    }
    MUSTER_TRY(std::vector<std::string> values, convert(option, value, source));
    if (option.kind == OptionKind::kRepeat && setting.source == source)
      values.insert(values.begin(), setting.values.begin(), setting.values.end());
    setting.values = std::move(values);
    setting.source = source;
    if (option.immediate) parsed_.immediate = option.id;
    return {};
  }

  bool in_allocation() const {
    return !getenv_("SLURM_JOB_ID").value_or("").empty() || !getenv_("PBS_JOBID").value_or("").empty();
  }

  Result<std::vector<std::string>> convert(const Option& option, const std::optional<std::string>& value,
                                           Origin source) const {
    using Values = std::vector<std::string>;
    if (!option.takes_value()) return Values{"1"};
    switch (option.kind) {
      case OptionKind::kInteger:
        if (auto number = python_int(*value)) return Values{*number};
        return complaints_.not_a_number(option, "int", *value, source);
      case OptionKind::kNumber:
        if (python_float(*value)) return Values{*value};
        return complaints_.not_a_number(option, "float", *value, source);
      case OptionKind::kList:
        return split_list(*value);
      case OptionKind::kText:
      case OptionKind::kRepeat:
      case OptionKind::kFlag:
        break;
    }
    // argparse checks choices on the command line only; a bad variable is found later, when it is used.
    if (!option.choices.empty() && (source == Origin::kOption || dialect_ == Dialect::kMuster)) {
      auto choices = split(option.choices, '|');
      if (std::find(choices.begin(), choices.end(), *value) == choices.end())
        return complaints_.no_such_choice(option, *value, source);
    }
    return Values{*value};
  }

  Result<void> fill_in_defaults() {
    if (dialect_ == Dialect::kMuster) {
      if (auto error = malformed_flag_variable(verb_, getenv_)) return *error;
    }
    for (const Option& option : options()) {
      Setting& setting = parsed_.setting(option.id);
      if (!option.in(verb_) || setting.source == Origin::kOption) continue;
      auto variable = option.reads_environment ? getenv_(pet_variable(option)) : std::nullopt;
      if (variable && option.kind == OptionKind::kFlag) {
        setting.source = Origin::kVariable;
        if (python_int(*variable) != "0") setting.values = {"1"};
      } else if (variable) {
        MUSTER_TRY_VOID(store(option, variable, Origin::kVariable));
      } else if (option.default_value != nullptr) {
        setting.values = {option.default_value};
      }
    }
    return {};
  }

  Result<void> check_words() const {
    const VerbInfo& verb = info(verb_);
    const size_t count = parsed_.words.size();
    if (verb.words == Words::kProgram && count == 0 && parsed_.flag(Opt::kEnvDiff)) return {};
    if (verb.words == Words::kProgram && count == 0) {
      if (dialect_ == Dialect::kArgparse)
        return usage_error("the following arguments are required: training_script, training_script_args");
      if (taken_script_ != nullptr) return complaints_.took_the_script(*taken_script_, parsed_.text(taken_script_->id));
      return Error{ErrorKind::kUsage, "nothing to run", fmt::format("write muster {} {}", verb.name, verb.synopsis)};
    }
    if (verb.words == Words::kOne && count == 0)
      return Error{ErrorKind::kUsage, fmt::format("'muster {}' needs an argument", verb.name),
                   fmt::format("write muster {} {}", verb.name, verb.synopsis)};
    const size_t most = verb.words == Words::kProgram ? count : verb.words == Words::kNone ? 0 : 1;
    if (count > most)
      return Error{ErrorKind::kUsage, fmt::format("unexpected argument '{}'", parsed_.words[most]),
                   fmt::format("see muster {} --help", verb.name)};
    if (!verb.choices.empty()) {
      auto choices = split(verb.choices, '|');
      if (std::find(choices.begin(), choices.end(), parsed_.words[0]) == choices.end())
        return complaints_.no_such_word(parsed_.words[0]);
    }
    return {};
  }

  const Verb verb_;
  const Dialect dialect_;
  const Complaints complaints_;
  const std::vector<std::string>& arguments_;
  const GetEnv& getenv_;
  std::vector<std::pair<const Option*, std::string>>
      spellings_;  // of all options of the verb, in the order of the table
  Parsed parsed_;
  std::vector<std::string> unknown_;
  const Option* taken_script_ = nullptr;  // the option whose value, a separate word, looks like a script
};

}  // namespace

const std::string& Parsed::text(Opt id) const {
  static const std::string nothing;
  const Setting& s = setting(id);
  return s.values.empty() ? nothing : s.values[0];
}

Dialect dialect_of(Verb verb) {
  return verb == Verb::kTorchrun || verb == Verb::kLaunch ? Dialect::kArgparse : Dialect::kMuster;
}

Result<Parsed> parse_arguments(Verb verb, const std::vector<std::string>& arguments, const GetEnv& getenv) {
  return Parser(verb, arguments, getenv).parse();
}

std::optional<Error> malformed_flag_variable(Verb verb, const GetEnv& getenv) {
  for (const Option& option : options()) {
    if (!option.in(verb) || !option.reads_environment || option.kind != OptionKind::kFlag) continue;
    auto value = getenv(pet_variable(option));
    if (value && !python_int(*value))
      return Error{ErrorKind::kUsage, fmt::format("{}='{}' is not a number", pet_variable(option), *value),
                   "set it to 0 or 1, or unset it"};
  }
  return std::nullopt;
}

}  // namespace muster::cli
