#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/cli/argument_parser.h"

namespace muster::cli {

// What the parser says of a command line that it does not understand, in argparse's words or in ours with the way out.
class Complaints {
 public:
  explicit Complaints(Verb verb) : verb_(verb), dialect_(dialect_of(verb)) {}

  Error ambiguous(std::string_view word, const std::vector<std::string>& could_be) const;
  // `type`: Python's name of it.
  Error not_a_number(const Option& option, std::string_view type, const std::string& value, Source source) const;
  Error no_such_choice(const Option& option, const std::string& value, Source source) const;
  Error missing_value(const Option& option) const;
  Error takes_no_value(const Option& option, const std::string& value) const;
  // Ours alone: of a verb whose word is one of a few.
  Error no_such_word(const std::string& word) const;
  // Likewise: "--log-dir train.py", and no program.
  Error took_the_script(const Option& option, const std::string& script) const;
  // Likewise: names the options that it resembles, or the script among the arguments behind it that it may belong to.
  Error unknown_option(const std::string& word, const std::vector<std::string>& arguments) const;

 private:
  const Verb verb_;
  const Dialect dialect_;
};

}  // namespace muster::cli
