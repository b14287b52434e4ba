#pragma once

#include <set>
#include <string>
#include <string_view>

namespace muster::launcher {

// What is known of a host that has not joined: why it failed last, and what is being done about it.
class HostNote {
 public:
  void progress(std::string_view what);
  void failure(std::string_view why, int attempts);
  bool has_failed() const { return !failure_.empty(); }

  // For a line that moves: the latest, "connecting, attempt 3".
  std::string now() const;
  // For a file, which gets a line whenever this changes: the last that was new. Neither the number of an attempt is, nor
  // that the next one goes the same way.
  const std::string& news() const { return news_; }
  // For the report: "ssh: connection refused; attempt 3 was under way (connecting)".
  std::string all() const;

 private:
  void take_for_news(const std::string& what);

  std::string failure_;
  int attempts_ = 0;  // 0: no other follows
  std::string progress_;
  std::set<std::string> known_;
  std::string news_;
};

}  // namespace muster::launcher
