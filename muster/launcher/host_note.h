#pragma once

#include <optional>
#include <set>
#include <string>

#include "muster/cluster/starter.h"

namespace muster::launcher {

// In a few words: "connecting", "sending the program (5.2 MB)". Pure.
std::string progress_text(const cluster::Progress& progress);

// What is known of a host that has not joined: why it failed last, and what is being done about it.
class HostNote {
 public:
  void progress(const cluster::Progress& progress);
  // `attempts`: that many have failed; 0: no other will be made.
  void failure(const cluster::StartFailure& failure, int attempts);
  bool has_failed() const { return failure_.has_value(); }

  // For a line that moves: the latest, "connecting, attempt 3".
  std::string now() const;
  // For a file, which gets a line whenever this changes: the last that was new. Neither the number of an attempt is, nor
  // that the next one goes the same way.
  const std::string& news() const { return news_; }
  // For the report: "ssh: connection refused; attempt 3 was under way (connecting)".
  std::string all() const;

 private:
  std::string failure_text() const;
  void take_for_news(const std::string& what);

  std::optional<cluster::StartFailure> failure_;
  int attempts_ = 0;                           // 0: no other follows
  std::optional<cluster::Progress> progress_;  // since the last failure
  std::set<std::string> known_;
  std::string news_;
};

}  // namespace muster::launcher
