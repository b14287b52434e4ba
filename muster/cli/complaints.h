#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/cli/argument_parser.h"

namespace muster::cli {

// The errors of the argument parser, in argparse's words, or in muster's words with a hint what to do.
class Complaints {
 public:
  explicit Complaints(Verb verb) : verb_(verb), dialect_(dialect_of(verb)) {}

  Error ambiguous(std::string_view word, const std::vector<std::string>& could_be) const;
  // `type`: Python's name of the type.
  Error not_a_number(const Option& option, std::string_view type, const std::string& value, Origin source) const;
  Error no_such_choice(const Option& option, const std::string& value, Origin source) const;
  Error missing_value(const Option& option) const;
  Error takes_no_value(const Option& option, const std::string& value) const;
  // For muster's dialect only: the word of a verb is not one of its choices.
  Error no_such_word(const std::string& word) const;
  // For muster's dialect only: "--log-dir train.py" without a program.
  Error took_the_script(const Option& option, const std::string& script) const;
  // For muster's dialect only. Names the options that the word resembles, or the script among `arguments` to which it
  // may belong.
  Error unknown_option(const std::string& word, const std::vector<std::string>& arguments) const;

 private:
  const Verb verb_;
  const Dialect dialect_;
};

}  // namespace muster::cli
