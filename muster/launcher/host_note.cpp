#include "muster/launcher/host_note.h"

#include <fmt/format.h>

#include "muster/base/printable.h"

namespace muster::launcher {

std::string progress_text(const cluster::Progress& progress) {
  using enum cluster::Progress::Stage;
  const std::string detail = escaped(progress.detail);
  switch (progress.stage) {
    case kConnecting:
      return "connecting";
    case kRequested:
      return fmt::format("starting through {}", progress.command);
    case kWaiting:
      return fmt::format("{} waits: {}", progress.command, detail);
    case kReplacing:
      return "the program that is kept there has changed";
    case kSending:
      return detail.empty() ? "sending the program" : fmt::format("sending the program ({})", detail);
    case kStarting:
      return "starting";
    case kUnreachable:
      return fmt::format("its agent cannot reach {}", detail);
    case kSettingUp:
      return fmt::format("setting up: {}", detail);
  }
  return {};
}

void HostNote::progress(const cluster::Progress& progress) {
  progress_ = progress;
  take_for_news(progress_text(progress));
}

void HostNote::failure(const cluster::StartFailure& failure, int attempts) {
  failure_ = failure;
  attempts_ = attempts;
  progress_.reset();
  take_for_news(failure_text());
}

void HostNote::take_for_news(const std::string& what) {
  if (known_.insert(what).second) news_ = what;
}

// While it may pass it is too early for advice.
std::string HostNote::failure_text() const {
  return escaped(attempts_ > 0 ? failure_->why.message : failure_->why.text());
}

std::string HostNote::now() const {
  if (!progress_) return attempts_ > 0 ? fmt::format("{}, attempt {}", failure_text(), attempts_) : failure_text();
  const bool counts = progress_->stage == cluster::Progress::Stage::kConnecting && attempts_ > 0;
  return progress_text(*progress_) + (counts ? fmt::format(", attempt {}", attempts_ + 1) : "");
}

std::string HostNote::all() const {
  if (!failure_ || !progress_) return now();
  return fmt::format("{}; attempt {} was under way ({})", failure_text(), attempts_ + 1, progress_text(*progress_));
}

}  // namespace muster::launcher
