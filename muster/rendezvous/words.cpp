#include "muster/rendezvous/words.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/strings.h"

namespace muster::rendezvous {

std::string cause_text(const Loss& loss) {
  switch (loss.cause) {
    case Loss::Cause::kClosed:
    case Loss::Cause::kBroken:
      return loss.detail.empty() ? "its connection has ended" : loss.detail;
    case Loss::Cause::kProtocol:
      return loss.detail.empty() ? "it broke the protocol" : loss.detail;
    case Loss::Cause::kSilent:
      return "no word for " + elapsed_text(loss.lasting);
    case Loss::Cause::kNoAnswer:
      return "its agent has not answered for " + elapsed_text(loss.lasting);
    case Loss::Cause::kNotKilled:
      return "its workers were killed and have not ended";
    case Loss::Cause::kLeft:
      return "everything of the job on it has ended";
  }
  return {};
}

std::string loss_text(const Loss& loss) { return fmt::format("{} is lost: {}", loss.host, cause_text(loss)); }

std::vector<std::string> loss_texts(const std::vector<Loss>& all) {
  std::vector<std::string> texts;
  texts.reserve(all.size());
  for (const Loss& loss : all) texts.push_back(loss_text(loss));
  return texts;
}

std::string reason_text(const Decision& decision, TimePoint now) {
  if (!decision.until) return decision.reason;
  const std::string left = elapsed_text(std::max(Duration(0), *decision.until - now));
  return decision.waiting == Waiting::kLease ? fmt::format("{} for {} more", decision.reason, left)
                                             : fmt::format("{}, {} left", decision.reason, left);
}

}  // namespace muster::rendezvous
