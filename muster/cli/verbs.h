#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "muster/cli/options.h"

namespace muster::cli {

// What may stand behind the options of a verb.
enum class Words {
  kNone,
  kOne,       // exactly one
  kOptional,  // one at most
  kProgram,   // a program and everything behind it, untouched
};

struct Example {
  std::string_view command;
  std::string_view meaning;
};

struct VerbInfo {
  Verb verb;
  std::string_view name;
  Words words;
  std::string_view synopsis;  // behind the options
  std::string_view choices;   // of its word: "bash|zsh"; empty: anything
  std::string_view summary;   // one line
  std::string_view description;
  std::span<const Example> examples;  // the most instructive first: --help shows a few
  std::string_view details = "";      // behind the description in --help-all and the man page
};

// Those that people use; `muster agent` is not among them.
std::span<const VerbInfo> verbs();
const VerbInfo& info(Verb verb);
const VerbInfo* find_verb(std::string_view name);
// The verb a mistyped name most resembles, if it resembles one.
const VerbInfo* nearest_verb(std::string_view name);

}  // namespace muster::cli
