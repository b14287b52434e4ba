#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helpers.h"

namespace muster::cluster::test {

// A real sshd of our own on a loopback port, with its own keys; sessions begin in `home`. Runs as whoever runs the test.
class Sshd {
 public:
  Sshd() {
    std::filesystem::create_directories(home());
    if (getuid() == 0) mkdir("/run/sshd", 0755);  // where sshd locks itself up; made by its service otherwise
    make_key("host_key");
    make_key("user_key");
    make_key("stranger_key");
    std::filesystem::copy(dir_ / "user_key.pub", dir_ / "authorized_keys");
    for (int i = 0; i < 20 && !running_; ++i) start_on(free_port());
    if (!running_) ADD_FAILURE() << said_;
    MUSTER_CHECK(running_);
    std::ofstream(dir_ / "known_hosts") << "[127.0.0.1]:" << port_ << " " << contents(dir_ / "host_key.pub");
  }
  ~Sshd() {
    kill(sshd_.pid, SIGTERM);
    pollfd entry{sshd_.pidfd.get(), POLLIN, 0};
    poll(&entry, 1, Deadline::in(10s).poll_timeout());
    process::try_reap(sshd_);
  }

  std::string home() const { return dir_ / "home"; }
  const TempDir& dir() const { return dir_; }
  int port() const { return port_; }

  // What ssh needs to get in.
  std::vector<std::string> options() const {
    return {
        fmt::format("Port={}", port_), "IdentityFile=" + dir_ / "user_key",          "IdentitiesOnly=yes",
        "IdentityAgent=none",          "UserKnownHostsFile=" + dir_ / "known_hosts", "GlobalKnownHostsFile=/dev/null",
        "StrictHostKeyChecking=yes"};
  }

 private:
  void make_key(const std::string& name) {
    auto child = process::spawn({.program = "/usr/bin/ssh-keygen",
                                 .argv = {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", dir_ / name},
                                 .environment = {{"PATH", "/usr/bin:/bin"}}});
    MUSTER_CHECK(child.ok());
    pollfd entry{child->pidfd.get(), POLLIN, 0};
    poll(&entry, 1, Deadline::in(20s).poll_timeout());
    MUSTER_CHECK(process::try_reap(*child) == process::ExitStatus{});
  }

  static int free_port() {
    Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    MUSTER_CHECK(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    MUSTER_CHECK(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    return ntohs(address.sin_port);
  }

  // Somebody may have taken the port meanwhile: then it does not run.
  void start_on(int port) {
    port_ = port;
    std::ofstream(dir_ / "sshd_config")
        << fmt::format("Port {}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\n", port, dir_ / "host_key",
                       dir_ / "authorized_keys")
        << "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        << "PermitRootLogin yes\nMaxStartups 300\nMaxSessions 100\n"
        << fmt::format("ForceCommand cd {} && exec /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"\n", home());
    int fds[2];
    MUSTER_CHECK(pipe2(fds, O_CLOEXEC) == 0);
    Fd log(fds[0]), their_log(fds[1]);
    auto child = process::spawn({.program = "/usr/sbin/sshd",
                                 .argv = {"/usr/sbin/sshd", "-D", "-e", "-f", dir_ / "sshd_config"},
                                 .environment = {{"PATH", "/usr/bin:/bin"}},
                                 .stderr_fd = their_log.get()});
    if (!child) ADD_FAILURE() << child.error().text() << " (package openssh-server)";
    MUSTER_CHECK(child.ok());
    their_log.reset();
    std::string text;
    char c;
    while (text.find("Server listening") == std::string::npos && ::read(log.get(), &c, 1) == 1) text += c;
    running_ = text.find("Server listening") != std::string::npos;
    sshd_ = *std::move(child);
    log_ = std::move(log);
    said_ = text;
  }

  TempDir dir_;
  process::Child sshd_;
  Fd log_;  // kept open: sshd must not die of writing to it
  std::string said_;
  int port_ = 0;
  bool running_ = false;
};

}  // namespace muster::cluster::test
