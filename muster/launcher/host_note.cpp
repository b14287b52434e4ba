#include "muster/launcher/host_note.h"

#include <fmt/format.h>

#include "muster/base/printable.h"

namespace muster::launcher {
namespace {

std::string without_attempt(const std::string& what) { return what.substr(0, what.find(", attempt ")); }

}  // namespace

void HostNote::progress(std::string_view what) {
  progress_ = escaped(what);
  take_for_news(without_attempt(progress_));
}

void HostNote::failure(std::string_view why, int attempts) {
  failure_ = escaped(why);
  attempts_ = attempts;
  progress_.clear();
  take_for_news(failure_);
}

void HostNote::take_for_news(const std::string& what) {
  if (known_.insert(what).second) news_ = what;
}

std::string HostNote::now() const {
  if (!progress_.empty()) return progress_;
  return attempts_ > 0 ? fmt::format("{}, attempt {}", failure_, attempts_) : failure_;
}

std::string HostNote::all() const {
  if (failure_.empty() || progress_.empty()) return now();
  return fmt::format("{}; attempt {} was under way ({})", failure_, attempts_ + 1, without_attempt(progress_));
}

}  // namespace muster::launcher
