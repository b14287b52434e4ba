#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "muster/net/event_loop.h"
#include "muster/process/spawn.h"

namespace muster::cluster {

// A child process that leads to an agent (ssh), or is one: what goes to its stdin, what comes from its stdout and
// stderr, and its end, all through the loop. Nothing here blocks but the wait for a process that has been killed.
class Link : public std::enable_shared_from_this<Link> {
 public:
  // Every handler may close the link, and then drop it.
  struct Handlers {
    std::function<void(std::string_view bytes)> output;     // stdout, as it comes
    std::function<void(std::string_view line)> said;        // stderr, line by line
    std::function<void(const process::ExitStatus&)> ended;  // the last call; all it wrote has been told
  };

  enum class Kill {
    kGroup,  // ssh, with its ProxyCommand
    kAlone,  // an agent: its warden ends the rest
  };

  // The descriptors of `spec` are set here; only a stdin_fd that is given stays (write() is then not for this link).
  static Result<std::shared_ptr<Link>> open(net::EventLoop& loop, process::SpawnSpec spec, Kill kill,
                                            Handlers handlers);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Sent as fast as the child reads. Its stdin stays open until the link is closed.
  void write(std::string_view bytes);

  // The end of its stdin tells an agent that we are gone.
  void close_input();
  void signal(int number) const;
  // Waits for the end of the process; false when it had not come by the deadline. Tells no handler.
  bool wait(Deadline deadline) const;
  // SIGKILL, if it still runs; no handler is called from now on. Reaped when the link is destroyed.
  void close();

  pid_t pid() const { return child_.pid; }

 private:
  enum class Read { kSome, kNothing, kEnd };

  Link(net::EventLoop& loop, Kill kill, Handlers handlers) : loop_(loop), kill_(kill), handlers_(std::move(handlers)) {}
  Result<void> start(process::SpawnSpec spec);
  void watch_all();
  void send_some();
  Read read_output();
  Read read_said();
  void end_it() const;
  void tell_lines();
  void tell_end();

  net::EventLoop& loop_;
  Kill kill_;
  Handlers handlers_;
  process::Child child_;
  Fd input_, output_, said_;
  std::string unsent_;
  size_t sent_ = 0;     // of it
  std::string line_;    // of stderr, not whole yet
  bool closed_ = true;  // before there is a process, and after close()
  bool reaped_ = true;
};

}  // namespace muster::cluster
