#include <cstdint>
#include <string>

#include "muster/cli/argument_parser.h"

// Whole command lines, a word a line, for both dialects: words are never invented, and what is accepted names a
// program.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::cli;
  std::vector<std::string> words(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == '\n') {
      words.emplace_back();
    } else {
      words.back() += static_cast<char>(data[i]);
    }
  }
  auto nothing_set = [](const std::string&) { return std::optional<std::string>(); };
  for (Verb verb : {Verb::kRun, Verb::kTorchrun, Verb::kLaunch}) {
    auto parsed = parse_arguments(verb, words, nothing_set);
    if (parsed && !parsed->immediate) MUSTER_CHECK(!parsed->words.empty() && parsed->words.size() <= words.size());
  }
  return 0;
}
