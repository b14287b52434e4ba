#include "muster/cluster/start_failure.h"

#include "muster/base/strings.h"

namespace muster::cluster {

std::optional<StartFailure> find_meaning(std::span<const Meaning> meanings, std::string_view said,
                                         std::string (*shorten)(std::string_view line)) {
  for (const Meaning& meaning : meanings) {
    const size_t at = said.find(meaning.pattern);
    if (at == std::string_view::npos) continue;
    const size_t begin = said.rfind('\n', at) + 1;  // npos + 1 is 0
    const std::string_view line = trim(said.substr(begin, said.find('\n', at) - begin));
    return StartFailure{
        meaning.cause,
        {ErrorKind::kPeer, meaning.text.empty() ? shorten(line) : std::string(meaning.text), std::string(meaning.hint)},
        meaning.may_try_again};
  }
  return std::nullopt;
}

}  // namespace muster::cluster
