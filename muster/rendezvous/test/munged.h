#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/clock.h"
#include "muster/rendezvous/munge.h"

namespace muster::rendezvous::test {

// A real munged of the test's own, with a key of its own.
class Munged {
 public:
  explicit Munged(char key) {
    char pattern[] = "/tmp/muster-munged-XXXXXX";
    directory_ = ::mkdtemp(pattern);
    ::chmod(directory_.c_str(), 0755);
    std::ofstream(directory_ + "/key") << std::string(128, key);
    ::chmod((directory_ + "/key").c_str(), 0600);
    start();
  }
  ~Munged() {
    ::kill(pid_, SIGKILL);  // a SIGTERM just before its accept() would be noticed at the next client only
    ::waitpid(pid_, nullptr, 0);
    std::filesystem::remove_all(directory_);
  }
  Munged(const Munged&) = delete;
  Munged& operator=(const Munged&) = delete;

  std::string socket() const { return directory_ + "/socket"; }
  Munge client() const { return *Munge::open(socket()); }

 private:
  void start() {
    const std::vector<std::string> words = {"/usr/sbin/munged",
                                            "--foreground",
                                            "--force",
                                            "--key-file=" + directory_ + "/key",
                                            "--socket=" + socket(),
                                            "--pid-file=" + directory_ + "/pid",
                                            "--seed-file=" + directory_ + "/seed",
                                            "--log-file=" + directory_ + "/log"};
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    for (int fd : {STDOUT_FILENO, STDERR_FILENO})
      ::posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_WRONLY, 0);
    const int failed = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ASSERT_EQ(failed, 0) << "munged is not installed";
    const Deadline deadline = Deadline::in(std::chrono::seconds(10));
    while (!std::filesystem::exists(socket()) && !deadline.passed())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_TRUE(std::filesystem::exists(socket()));
  }

  std::string directory_;
  pid_t pid_ = 0;
};

}  // namespace muster::rendezvous::test
