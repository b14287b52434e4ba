#include "muster/cli/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "muster/base/strings.h"
#include "muster/cli/accelerate_options.h"
#include "muster/cli/options.h"
#include "muster/cli/text_layout.h"
#include "muster/cli/verbs.h"

namespace muster::cli {
namespace {

std::string spaced(std::string_view bars) {
  std::string text(bars);
  std::replace(text.begin(), text.end(), '|', ' ');
  return text;
}

// The values to offer: the choices, else the literal words of the metavar ("gpu|cpu").
std::string offered_values(const Option& option) {
  if (!option.choices.empty()) return spaced(option.choices);
  std::vector<std::string> words;
  for (std::string_view word : split(option.metavar, '|'))
    if (!word.empty() && word[0] >= 'a' && word[0] <= 'z') words.emplace_back(word);
  return words.size() > 1 ? join(words, " ") : "";
}

// accelerate's names have underscores, but users may write dashes.
std::string with_dashes(const Option& option) {
  std::string name = dashed(option);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string verb_names() {
  std::vector<std::string> names;
  for (const VerbInfo& verb : verbs()) names.emplace_back(verb.name);
  return join(names, " ");
}

std::string bash_verb(const VerbInfo& verb) {
  std::vector<std::string> all, other, with_value;
  for (const Option& option : options_of(verb.verb)) {
    std::vector<std::string> names = {dashed(option)};
    if (option.short_flag != 0) names.push_back({'-', option.short_flag});
    all.insert(all.end(), names.begin(), names.end());
    if (!underscored(option).empty()) {
      names.push_back(underscored(option));
      other.push_back(underscored(option));
    }
    if (verb.verb == Verb::kAccelerate && option.id == Opt::kCount) names.push_back(with_dashes(option));
    if (option.takes_value()) with_value.insert(with_value.end(), names.begin(), names.end());
  }
  return fmt::format(
      "    {})\n      options='{}'\n      underscored='{}'\n      with_value=' {} '\n      words='{}' ;;\n", verb.name,
      join(all, " "), join(other, " "), join(with_value, " "),
      verb.verb == Verb::kHelp ? verb_names() : spaced(verb.choices));
}

std::string bash(std::string_view command) {
  std::string text =
      "# bash completion for muster: source <(muster completion bash)\n"
      "_muster() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} verb i=2 options='' underscored='' with_value='' words='' pending=''\n"
      "  COMPREPLY=()\n"
      "  if [[ ${COMP_WORDS[0]##*/} == torchrun ]]; then\n"
      "    verb=torchrun i=1\n"
      "  elif [[ ${COMP_WORDS[0]##*/} == accelerate-launch ]]; then\n"
      "    verb=accelerate i=1\n"
      "  elif ((COMP_CWORD == 1)); then\n";
  text += fmt::format("    COMPREPLY=($(compgen -W '{} --help --version' -- \"$cur\"))\n    return\n", verb_names());
  text +=
      "  else\n"
      "    verb=${COMP_WORDS[1]}\n"
      "  fi\n"
      "  case $verb in\n";
  for (const VerbInfo& verb : verbs()) text += bash_verb(verb);
  text +=
      "    *) return ;;\n"
      "  esac\n"
      "  if [[ $verb == accelerate ]]; then\n"
      "    if [[ ${COMP_WORDS[2]} == launch ]] && ((COMP_CWORD > 2)); then i=3; fi\n"
      "    ((i == 2)) || words=''\n"
      "  fi\n"
      "  # Words after the program are its arguments: complete files.\n"
      "  while ((i < COMP_CWORD)); do\n"
      "    [[ ${COMP_WORDS[i]} == -* ]] || return\n"
      "    if [[ $with_value == *\" ${COMP_WORDS[i]} \"* ]]; then\n"
      "      pending=${COMP_WORDS[i]}\n"
      "      ((i++))\n"
      "      [[ ${COMP_WORDS[i]} == = ]] && ((i++))\n"
      "      ((i >= COMP_CWORD)) && break\n"
      "      pending=''\n"
      "    fi\n"
      "    ((i++))\n"
      "  done\n"
      "  [[ $cur == = ]] && cur=''\n"
      "  case ${pending//_/-} in\n"
      "    '') ;;\n";
  std::vector<Option> all(options().begin(), options().end());
  for (const Option& option : options_of(Verb::kAccelerate))
    if (option.id == Opt::kCount) all.push_back(option);
  for (const Option& option : all) {
    std::string values = offered_values(option);
    if (values.empty()) continue;
    text += fmt::format("    {}) COMPREPLY=($(compgen -W '{}' -- \"$cur\")); return ;;\n", with_dashes(option), values);
  }
  text +=
      "    *) return ;;\n"
      "  esac\n"
      "  if [[ $cur == --*_* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$options $underscored\" -- \"$cur\"))\n"
      "  elif [[ $cur == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
      "  elif [[ -n $words ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
      "  fi\n"
      "}\n";
  return text + fmt::format("complete -o default -F _muster {}\n", command);
}

// Escapes text inside '…' of an _arguments specification.
std::string zsh_escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_option(const Option& option) {
  std::string summary = zsh_escape(first_sentence(option.help));
  std::string value;
  if (option.takes_value()) {
    std::string offered = offered_values(option);
    std::string escaped = zsh_escape(offered);
    std::string action = !offered.empty()           ? fmt::format("({})", escaped)
                         : option.metavar == "DIR"  ? "_files -/"
                         : option.metavar == "FILE" ? "_files"
                                                    : " ";
    value = fmt::format(":{}:{}", zsh_escape(option.metavar), action);
  }
  std::string text =
      fmt::format("        '{}{}[{}]{}' \\\n", dashed(option), option.takes_value() ? "=" : "", summary, value);
  if (option.short_flag != 0)
    text +=
        fmt::format("        '-{}{}[{}]{}' \\\n", option.short_flag, option.takes_value() ? "+" : "", summary, value);
  return text;
}

std::string zsh_verb(const VerbInfo& verb) {
  std::string text = fmt::format("    {})\n", verb.name);
  if (verb.verb == Verb::kAccelerate)
    text +=
        "      if [[ ${words[1]:t} != accelerate-launch ]]; then\n"
        "        ((CURRENT == 2)) && { compadd launch; return }\n"
        "        shift words\n"
        "        ((CURRENT--))\n"
        "      fi\n";
  text += "      _arguments -s -S \\\n";
  for (const Option& option : options_of(verb.verb)) text += zsh_option(option);
  switch (verb.words) {
    case Words::kProgram:
      text += "        '(-)1:program:_files' \\\n        '*:argument:_files' ;;\n";
      break;
    case Words::kNone:
      text += "        && return ;;\n";
      break;
    case Words::kOne:
    case Words::kOptional:
      text += fmt::format("        '1:word:({})' ;;\n", verb.verb == Verb::kHelp ? verb_names() : spaced(verb.choices));
      break;
  }
  return text;
}

std::string zsh(std::string_view command) {
  std::string text =
      "# zsh completion for muster: muster completion zsh > a directory of $fpath/_muster\n"
      "_muster() {\n"
      "  local verb\n"
      "  if [[ ${words[1]:t} == torchrun ]]; then\n"
      "    verb=torchrun\n"
      "  elif [[ ${words[1]:t} == accelerate-launch ]]; then\n"
      "    verb=accelerate\n"
      "  elif ((CURRENT == 2)); then\n"
      "    local -a verbs=(\n";
  for (const VerbInfo& verb : verbs()) text += fmt::format("      '{}:{}'\n", verb.name, zsh_escape(verb.summary));
  text +=
      "    )\n"
      "    _describe verb verbs\n"
      "    return\n"
      "  else\n"
      "    verb=$words[2]\n"
      "    shift words\n"
      "    ((CURRENT--))\n"
      "  fi\n"
      "  case $verb in\n";
  for (const VerbInfo& verb : verbs()) text += zsh_verb(verb);
  text +=
      "  esac\n"
      "}\n";
  return fmt::format("#compdef {0}\n{1}", command, text) +
         fmt::format("if [[ $funcstack[1] == _{0} ]]; then _muster \"$@\"; else compdef _muster {0}; fi\n", command);
}

std::string fish_quote(std::string_view text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish() {
  std::string text = "# fish completion for muster: muster completion fish > ~/.config/fish/completions/muster.fish\n";
  for (const VerbInfo& verb : verbs())
    text += fmt::format("complete -c muster -n __fish_use_subcommand -f -a {} -d {}\n", verb.name,
                        fish_quote(verb.summary));
  text += "complete -c muster -n __fish_use_subcommand -f -l version -d 'print the version'\n";
  for (const VerbInfo& verb : verbs()) {
    const std::string condition = fmt::format("-n '__fish_seen_subcommand_from {}'", verb.name);
    for (const Option& option : options_of(verb.verb)) {
      text += fmt::format("complete -c muster {} -l {}", condition, option.name);
      if (option.short_flag != 0) text += fmt::format(" -s {}", option.short_flag);
      std::string values = offered_values(option);
      const bool names_file = option.metavar == "DIR" || option.metavar == "FILE";
      if (option.takes_value()) text += names_file ? " -r" : " -x";
      if (!values.empty()) text += fmt::format(" -a {}", fish_quote(values));
      text += fmt::format(" -d {}\n", fish_quote(first_sentence(option.help)));
    }
    std::string words = verb.verb == Verb::kHelp ? verb_names() : spaced(verb.choices);
    if (!words.empty()) text += fmt::format("complete -c muster {} -f -a {}\n", condition, fish_quote(words));
  }
  return text;
}

}  // namespace

std::optional<Shell> parse_shell(std::string_view name) {
  if (name == "bash") return Shell::kBash;
  if (name == "zsh") return Shell::kZsh;
  if (name == "fish") return Shell::kFish;
  return std::nullopt;
}

std::string completion_script(Shell shell, std::string_view command) {
  switch (shell) {
    case Shell::kBash:
      return bash(command);
    case Shell::kZsh:
      return zsh(command);
    case Shell::kFish:
      return fish();
  }
  return "";
}

}  // namespace muster::cli
