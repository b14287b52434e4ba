#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "muster/cli/options.h"

namespace muster::cli {

// The words that may follow the options of a verb.
enum class Words {
  kNone,
  kOne,       // exactly one
  kOptional,  // at most one
  kProgram,   // a program and everything after it, unchanged
};

struct Example {
  std::string_view command;
  std::string_view meaning;
};

struct VerbInfo {
  Verb verb;
  std::string_view name;
  Words words;
  std::string_view synopsis;  // of the words after the options
  std::string_view choices;   // for the word: "bash|zsh"; empty: anything
  std::string_view summary;   // one line
  std::string_view description;
  std::span<const Example> examples;  // the most instructive first: --help shows a few
  std::string_view details = {};      // follow the description in --help-all and the man page
};

// The verbs for users, without `muster agent`.
std::span<const VerbInfo> verbs();
const VerbInfo& info(Verb verb);
const VerbInfo* find_verb(std::string_view name);
// The verb that a mistyped name resembles most; null if it resembles none.
const VerbInfo* nearest_verb(std::string_view name);

}  // namespace muster::cli
