#pragma once

#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "muster/cluster/starter.h"

namespace muster::cluster::test {

using namespace std::chrono_literals;

// A folder that is gone when the test is.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-cluster-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempDir() {
    // An agent on "another machine" may just be writing its last file.
    std::error_code error;
    for (int tries = 0; tries < 100 && (tries == 0 || error); ++tries) std::filesystem::remove_all(path_, error);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // Writes a program of the shell, its folders included, and returns its path.
  std::string script(const std::string& name, const std::string& text) const {
    std::filesystem::path file = path_ + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "#!/bin/sh\n" << text;
    std::filesystem::permissions(file, std::filesystem::perms(0755));
    return file.string();
  }

 private:
  std::string path_;
};

inline std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string_view stage_name(Progress::Stage stage) {
  using enum Progress::Stage;
  switch (stage) {
    case kConnecting:
      return "connecting";
    case kRequested:
      return "requested";
    case kWaiting:
      return "waiting";
    case kReplacing:
      return "replacing";
    case kSending:
      return "sending";
    case kStarting:
      return "starting";
    case kUnreachable:
      return "unreachable";
    case kSettingUp:
      return "setting-up";
  }
  return "";
}

// Everything that a starter tells, one line each: "0 progress connecting".
struct Told {
  std::vector<std::string> lines;
  std::vector<StartFailure> failures;
  std::function<void()> then = [] {};

  Starter::Handlers handlers() {
    return {.progress =
                [this](int position, const Progress& progress) {
                  add(position, fmt::format("progress {}{}{}", stage_name(progress.stage),
                                            progress.detail.empty() ? "" : " ", progress.detail));
                },
            .failed =
                [this](int position, const StartFailure& failure) {
                  failures.push_back(failure);
                  add(position,
                      fmt::format("failed {}{}", failure.why.text(), failure.may_try_again ? " (again)" : ""));
                },
            .said = [this](int position, std::string_view line) { add(position, fmt::format("said {}", line)); }};
  }
  void add(int position, const std::string& what) {
    lines.push_back(fmt::format("{} {}", position, what));
    then();
  }
  bool has(const std::string& start) const {
    for (const std::string& line : lines)
      if (line.starts_with(start)) return true;
    return false;
  }
};

// Runs the loop until it is so; false when it was not within a time that no test needs.
inline bool run_until(net::EventLoop& loop, const std::function<bool()>& so, Duration limit = 20s) {
  Deadline deadline = Deadline::in(limit);
  std::function<void()> look = [&] {
    if (so()) loop.stop();
  };
  auto hook = loop.add_end_hook(look);
  // Files change without the loop's knowledge.
  std::function<void()> tick;
  net::EventLoop::TimerId timer = 0;
  tick = [&] { timer = loop.call_after(5ms, tick); };
  tick();
  bool stopped = so() || loop.run_until(deadline);
  loop.cancel(timer);
  loop.remove_end_hook(hook);
  return stopped;
}

}  // namespace muster::cluster::test
